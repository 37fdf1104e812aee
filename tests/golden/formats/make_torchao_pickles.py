"""Writes small checkpoints that torchao pickled, with the weights as torchao dequantizes them.

usage: python make_torchao_pickles.py TARGET_DIR [FOLDER ...]

Made with torch 2.13.0, torchao 0.18.0, transformers 5.24.0 and safetensors 0.8.0. Each folder holds config.json as transformers writes it
for a torchao model, pytorch_model.bin (torch.save of the quantized layers' state dict; two files and an index in one case), and what
tests/formats/tool_fixture.h reads: expected.safetensors with the first rows of each dequantized weight, and weights.json with the
FNV-1a 64 hash of all rows, -0 counted as 0.

Int4Tensor's quantizer needs a GPU kernel, so its parts are made here and put into the tool's class, which pickles itself; it is
dequantized by its definition, w = q * scale + zero, and rounded to bf16 as the tool does with its other 4-bit weights.
"""
import json
import pathlib
import struct
import sys

import torch
import torchao.quantization as ao
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, TorchAoConfig

ROWS = 4
HIDDEN, INNER = 64, 96
CASES = {
    "torchao-pickle-int8da": lambda: ao.Int8DynamicActivationInt8WeightConfig(version=2),
    "torchao-pickle-intx": lambda: ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)),
    "torchao-pickle-float8": lambda: ao.Float8WeightOnlyConfig(),
    "torchao-pickle-int4": lambda: ao.Int4WeightOnlyConfig(group_size=32),
}


def int4_tensor(weight):
    groups = weight.float().reshape(weight.shape[0], -1, 32)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = ((high - low) / 15).bfloat16()
    zero = (low.float() + 8 * scale.float()).bfloat16()
    codes = ((groups - zero.float()) / scale.float()).round().clamp(-8, 7).to(torch.int8).reshape(weight.shape)
    packed = (codes[:, ::2] & 0xF) | (codes[:, 1::2] << 4)
    tensor = ao.Int4Tensor(packed, scale[..., 0].t().contiguous(), zero[..., 0].t().contiguous(), [1, 32], weight.shape)
    values = codes.float().reshape(groups.shape) * scale.float() + zero.float()
    return tensor, values.reshape(weight.shape).bfloat16().float()


def quantized(name, config):
    torch.manual_seed(7)
    shape = LlamaConfig(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                        vocab_size=32, max_position_embeddings=64)
    model = LlamaForCausalLM(shape).bfloat16()
    expected = {}
    if name == "torchao-pickle-int4":
        for path, module in model.model.layers.named_modules():
            if isinstance(module, torch.nn.Linear):
                tensor, expected[f"model.layers.{path}.weight"] = int4_tensor(module.weight.detach())
                module.weight = torch.nn.Parameter(tensor, requires_grad=False)
    else:
        ao.quantize_(model.model.layers, config)
        for path, module in model.model.layers.named_modules():
            if isinstance(module, torch.nn.Linear):
                expected[f"model.layers.{path}.weight"] = module.weight.dequantize().float()
    shape.quantization_config = TorchAoConfig(config).to_dict()
    shape.architectures = ["LlamaForCausalLM"]
    state = {k: v for k, v in model.state_dict().items() if k.startswith("model.layers")}
    return shape, state, expected


def fnv1a(values):
    value = 0xCBF29CE484222325
    for byte in (values + 0.0).contiguous().numpy().tobytes():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def save(folder, state):
    if folder.name != "torchao-pickle-intx":
        torch.save(state, folder / "pytorch_model.bin")
        return
    shards = {f"pytorch_model-{i + 1:05d}-of-00002.bin": {k: v for k, v in state.items() if ("mlp" in k) == bool(i)} for i in range(2)}
    for name, part in shards.items():
        torch.save(part, folder / name)
    index = {"metadata": {}, "weight_map": {k: name for name, part in shards.items() for k in part}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def write(folder, config):
    folder.mkdir(parents=True, exist_ok=True)
    shape, state, expected = quantized(folder.name, config)
    shape.save_pretrained(folder)
    save(folder, state)
    hashes = {name: {"rows": len(value), "fnv1a": fnv1a(value)} for name, value in sorted(expected.items())}
    (folder / "weights.json").write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")
    save_file({name: value[:ROWS].contiguous() for name, value in expected.items()}, folder / "expected.safetensors")
    (folder / "expected.safetensors").chmod(0o644)


def main():
    target, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:] or CASES
    for name in wanted:
        write(target / name, CASES[name]())


if __name__ == "__main__":
    main()
