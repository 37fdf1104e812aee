#!/usr/bin/env python3
"""Prompts, and the ids that Transformers' tokenizers of models/shapes-flux give them.

  make_prompts.py   writes prompts.json beside this script

A list of objects: `tokenizer` (its folder), `text`, `tokens` (the length padded and cut to), `ids` (without the padding), `pad`,
`dropped_tokens`, and `dropped_text`, which is what diffusers' pipelines report as cut.
Made with transformers 5.24 and tokenizers 0.23.3.
"""
import json, pathlib
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "models/shapes-flux"
TEXTS = [
    "", " ", "a", "a red circle left of a green square on a white background", "A Large YELLOW Star,  above\ta small\nblue ring!",
    "it's the artist's; they've drawn 12345 shapes (50%)", "na\u00efve caf\u00e9 \u00c9T\u00c9 stra\u00dfe \u0130stanbul \u01c5",
    "e\u0301 combined, \ufb01 ligature, \u2460 circled, \uff21 wide", "\u65e5\u672c\u8a9e \u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u0639\u0631\u0628\u064a \U0001f600",
    "no-break\u00a0space and zero\u200bwidth \u3000 wide space", "<|startoftext|>a<|endoftext|> b</s> <pad> <unk> </w>",
    "word1 word2... \"quoted\" 'single' --dashes__ under_score / slash\\", "\x00\x07 control \x7f",
    "a small green triangle above " * 12 + "a large pink ring at the bottom on a navy background",
]
LENGTHS = {"tokenizer": (77, 9, 2), "tokenizer_2": (512, 16, 1)}


def encode(folder, tokenizer, text, tokens):
    out = tokenizer(text, padding="max_length", max_length=tokens, truncation=True)
    whole = tokenizer(text).input_ids
    dropped = whole[tokens - 1:-1] if len(whole) > tokens else []
    return dict(tokenizer=folder, text=text, tokens=tokens, ids=out.input_ids[:sum(out.attention_mask)], pad=tokenizer.pad_token_id,
                dropped_tokens=len(dropped), dropped_text=tokenizer.decode(dropped))


rows = [encode(folder, tokenizer, text, tokens) for folder, lengths in LENGTHS.items()
        for tokenizer in [AutoTokenizer.from_pretrained(MODEL / folder)] for text in TEXTS for tokens in lengths]
(HERE / "prompts.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
print(len(rows), "prompts,", sum(row["dropped_tokens"] > 0 for row in rows), "cut")
