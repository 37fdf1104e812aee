#!/usr/bin/env python3
"""Runs in the environment of another reader: loads a GGUF in llama.cpp and saves what it makes of a text.

  llama_reader.py FILE OUT.safetensors TEXT TOKENS ID ID ...

Saves the logits after each of the ids; prints the ids of the text, and TOKENS greedy ones after the ids.
"""
import json
import sys

import llama_cpp
import numpy as np
from safetensors.numpy import save_file


def without_repacking():
    """Weights stay in their blocks: llama.cpp's AMX buffers crash on some virtual machines."""
    params = default_params()
    params.use_extra_bufts = False
    return params


default_params = llama_cpp.llama_cpp.llama_model_default_params
llama_cpp.llama_cpp.llama_model_default_params = without_repacking


def main():
    path, out, text, tokens, *ids = sys.argv[1:]
    ids = [int(i) for i in ids]
    model = llama_cpp.Llama(path, n_ctx=256, logits_all=True, verbose=False, n_threads=2)
    text_ids = model.tokenize(text.encode(), add_bos=False, special=True)
    model.eval(ids)
    save_file({"logits": np.array(model.scores[:len(ids)], dtype=np.float32)}, out)
    greedy = []
    while len(greedy) < int(tokens):
        greedy.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        model.eval(greedy[-1:])
    print(json.dumps({"text": text_ids, "greedy": greedy}))


if __name__ == "__main__":
    main()
