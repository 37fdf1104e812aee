#!/usr/bin/env python3
"""Runs in the environment of another reader: loads a folder in Transformers and saves the logits of a few tokens.

  other_reader.py FOLDER OUT.safetensors ID ID ...

Prints the classes of the quantized layers, so that a test can tell that nothing fell back to plain weights.
"""
import collections
import json
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM


def main():
    folder, out, *ids = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu").eval()
    torch.nn.Module.float(model)  # the reader forces half precision; what lies in the file is exact in float32
    kinds = collections.Counter(type(module).__module__ for module in model.modules() if hasattr(module, "qweight"))
    with torch.no_grad():
        logits = model(torch.tensor([[int(i) for i in ids]])).logits[0]
    save_file({"logits": logits.float().contiguous()}, out)
    print(json.dumps(kinds))


if __name__ == "__main__":
    main()
