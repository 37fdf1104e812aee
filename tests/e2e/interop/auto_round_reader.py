#!/usr/bin/env python3
"""Runs in the environment of another reader: loads a folder in Transformers with auto-round and saves logits.

  auto_round_reader.py FOLDER OUT.safetensors PROMPTS BACKEND

PROMPTS is JSON, lists of ids of one length. Saved are "logits", after the second token of each. BACKEND is auto-round's name of what
multiplies; with it auto-round reads GPTQ and AWQ folders as well. Prints the classes of the quantized layers, so that a test can tell
that nothing fell back to plain weights.
"""
import collections
import json
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoRoundConfig


def as_float32(layer):
    """A plain layer with the weight that auto-round-lib unpacks from its own form; its kernels round the activations to 8 bits."""
    import auto_round_kernel
    weight = auto_round_kernel.unpack_weight(layer.qweight, torch.float32, layer.outfeatures, layer.infeatures, layer.group_size,
                                             layer.cdt, layer.wdt, layer.sdt, layer.asym)
    plain = torch.nn.Linear(layer.infeatures, layer.outfeatures, bias=False)
    plain.weight.data = weight.contiguous()
    return plain


def replace_kernels(model):
    for name, layer in list(model.named_modules()):
        if type(layer).__module__.startswith("auto_round_kernel."):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, as_float32(layer))


def main():
    folder, out, prompts, backend = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu",
                                                 quantization_config=AutoRoundConfig(backend=backend)).eval()
    torch.nn.Module.float(model)  # the reader forces half precision; what lies in the file is exact in float32
    kinds = collections.Counter(f"{type(m).__module__}.{type(m).__name__}" for m in model.modules() if hasattr(m, "qweight"))
    replace_kernels(model)
    with torch.no_grad():
        logits = model(torch.tensor(json.loads(prompts))).logits[:, 1]
    save_file({"logits": logits.float().contiguous()}, out)
    print(json.dumps(kinds))


if __name__ == "__main__":
    main()
