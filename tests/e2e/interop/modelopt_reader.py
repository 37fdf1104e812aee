#!/usr/bin/env python3
"""Runs in the environment of another reader: reads a folder with Model Optimizer's own classes, saves its weights and logits.

  modelopt_reader.py FOLDER OUT.safetensors PROMPTS

The package writes such folders and has no loader for them. Its parts are put together as its exporter took them apart: tensor classes
dequantize what is stored, quantizers of the algorithm's preset round the inputs under the stored scales. PROMPTS is JSON, lists of ids
of one length. Saved are "logits", after the second token of each, and the weights of all quantized layers, both in float32.
"""
import json
import pathlib
import sys

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export.convert_hf_config import convert_hf_quant_config_format
from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

PRESETS = {"FP8": mtq.FP8_DEFAULT_CFG, "FP8_PER_CHANNEL_PER_TOKEN": mtq.FP8_PER_CHANNEL_PER_TOKEN_CFG, "NVFP4": mtq.NVFP4_DEFAULT_CFG}
FP4_BLOCK = {-1: 16}


def dequantized(parts):
    """The float32 weight of one layer from its tensors by their last names."""
    codes, scale = parts["weight"], parts["weight_scale"]
    if codes.dtype == torch.uint8:
        stored = NVFP4QTensor(torch.Size([codes.shape[0], 2 * codes.shape[1]]), torch.float32, codes)
        return stored.dequantize(torch.float32, scale=scale, double_scale=parts["weight_scale_2"], block_sizes=FP4_BLOCK)
    return FP8QTensor(codes.shape, torch.float32, codes).dequantize(torch.float32, scale=scale[:, None] if scale.dim() else scale)


def rounded_to_fp4(x, input_scale):
    stored, scale, above = NVFP4QTensor.quantize(x, FP4_BLOCK[-1], weights_scaling_factor_2=input_scale)
    return stored.dequantize(torch.float32, scale=scale, double_scale=above, block_sizes=FP4_BLOCK)


def quantize_inputs(layer, parts):
    """Sets the quantizers that the preset gave a layer."""
    layer.weight_quantizer.disable()
    if layer.input_quantizer.num_bits == (2, 1):  # runs on GPUs alone; the exporter's arithmetic is the same
        layer.input_quantizer.disable()
        layer.register_forward_pre_hook(lambda _, x: (rounded_to_fp4(x[0], parts["input_scale"]),))
    elif "input_scale" in parts:
        layer.input_quantizer.amax = parts["input_scale"] * layer.input_quantizer.maxbound


def plain_config(folder):
    """The model's settings, after a check that both files say of the quantization what the package would write."""
    config = AutoConfig.from_pretrained(folder, dtype=torch.float32)
    older = json.loads((folder / "hf_quant_config.json").read_text())
    expected = convert_hf_quant_config_format(older)
    assert config.quantization_config == expected, (config.quantization_config, expected)
    del config.quantization_config
    return config, expected["quant_algo"]


def main():
    folder, out, prompts = sys.argv[1:]
    config, algorithm = plain_config(pathlib.Path(folder))
    layers = {}  # of all modules with parameters, quantized or not
    for name, tensor in load_file(f"{folder}/model.safetensors").items():
        module, _, part = name.rpartition(".")
        layers.setdefault(module, {})[part] = tensor
    quantized = {module: parts for module, parts in layers.items() if "weight_scale" in parts}
    weights = {f"{module}.weight": dequantized(parts) for module, parts in quantized.items()}
    plain = {f"{module}.{part}": tensor for module, parts in layers.items() if module not in quantized for part, tensor in parts.items()}

    model = AutoModelForCausalLM.from_config(config).eval()
    unread = model.load_state_dict({**plain, **weights}, strict=False)
    assert not unread.unexpected_keys and set(unread.missing_keys) <= {"lm_head.weight"}, unread
    model.tie_weights()
    mtq.quantize(model, {**PRESETS[algorithm], "algorithm": None})
    for module, parts in quantized.items():
        quantize_inputs(model.get_submodule(module), parts)
    with torch.no_grad():
        logits = model(torch.tensor(json.loads(prompts))).logits[:, 1]
    save_file({"logits": logits.contiguous(), **weights}, out)


if __name__ == "__main__":
    main()
