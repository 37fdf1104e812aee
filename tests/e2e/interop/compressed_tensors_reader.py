#!/usr/bin/env python3
"""Runs in the environment of another reader: loads a folder in Transformers with compressed-tensors, saves its weights and logits.

  compressed_tensors_reader.py FOLDER OUT.safetensors PROMPTS

PROMPTS is JSON, lists of ids of one length. Saved are "logits", after the second token of each prompt, and the weights of all quantized
layers, both in float32.
"""
import functools
import json
import math
import sys

import torch
from compressed_tensors.compressors.nvfp4 import base as packed_fp4
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

# The library rounds unpacked 4-bit floats to bfloat16 unless told otherwise.
packed_fp4.unpack_fp4_from_uint8 = functools.partial(packed_fp4.unpack_fp4_from_uint8, dtype=torch.float32)


def pack_zero_points(compress):
    """Layers that have no data yet keep unpacked zero points in compressed-tensors 0.20, so that asymmetric folders, llm-compressor's own
    among them, don't fit. `compress` with what it lacks."""
    def whole(cls, tensors, scheme):
        tensors = compress(cls, tensors, scheme)
        zeros = tensors.get("weight_zero_point")
        if zeros is not None and zeros.is_meta:
            rows = math.ceil(zeros.shape[0] * scheme.weights.num_bits / 32)
            tensors["weight_zero_point"] = torch.empty(rows, zeros.shape[1], dtype=torch.int32, device="meta")
        return tensors
    return classmethod(whole)


PackedQuantizationCompressor.compress = pack_zero_points(PackedQuantizationCompressor.compress.__func__)


def main():
    folder, out, prompts = sys.argv[1:]
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    unread = {key: names for key, names in report.items() if names}
    assert not unread, unread
    model.eval().hf_quantizer.compressor.decompress_model(model)
    torch.nn.Module.float(model)  # powers of two times 8-bit floats come as bfloat16, which holds them
    weights = {f"{name}.weight": layer.weight.data for name, layer in model.named_modules() if hasattr(layer, "quantization_scheme")}
    with torch.no_grad():
        logits = model(torch.tensor(json.loads(prompts))).logits[:, 1]
    save_file({"logits": logits.contiguous(), **weights}, out)


if __name__ == "__main__":
    main()
