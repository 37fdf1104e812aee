#!/usr/bin/env python3
"""A tiny GPT-OSS folder whose experts are stacked in MXFP4, and what Transformers makes of it.

usage: make_mxfp4.py   writes tests/fixtures/checkpoints/transformers-mxfp4

The published folders were packed on accelerators, so the packing here is by the OCP MX specification 1.0: the scale of 32 values is
the power of two of their greatest magnitude, less e2m1's 2, and values round to nearest, ties to even. Reading is Transformers' own:
it loads the folder and dequantizes it. expected.safetensors has its first rows of some layers, `input_ids` and
`logits_dequant_f32`; weights.json the FNV-1a 64 hash of whole layers, -0 counted as 0.
Made with torch 2.13.0 and transformers 5.24.
"""
import json, pathlib, shutil, sys
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "golden/models"), str(ROOT / "golden/formats")]
from make_models import BASE, BODIES, fill
from trim_checkpoints import ROWS, fnv1a

FOLDER = ROOT / "fixtures/checkpoints/transformers-mxfp4"
CONFIG = dict(num_hidden_layers=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2, intermediate_size=96, sliding_window=6,
              rope_parameters=dict(rope_theta=1.5e5, rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                   original_max_position_embeddings=32))
PLAIN = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
LAYERS = [(0, 0, "gate_proj"), (0, 3, "up_proj"), (1, 2, "down_proj")]
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TIES = (E2M1[1:] + E2M1[:-1]) / 2


def pack(weight):
    """[experts, in, out] to blocks [experts, out, in / 32, 16] and scales [experts, out, in / 32]."""
    groups = weight.transpose(1, 2).reshape(weight.shape[0], weight.shape[2], -1, 32).float()
    exponent = torch.frexp(groups.abs().amax(-1)).exponent - 1 - 2
    magnitude = torch.ldexp(groups, -exponent[..., None]).abs().contiguous()
    code = torch.bucketize(magnitude, TIES)  # a tie goes down
    code += (code % 2 == 1) & (code < 7) & (magnitude == TIES[code.clamp(max=6)])
    code |= (groups < 0).int() << 3
    return (code[..., ::2] | code[..., 1::2] << 4).to(torch.uint8), (exponent + 127).to(torch.uint8)


def layer_of(model, index, expert, name):
    experts = model.model.layers[index].mlp.experts
    if name == "down_proj": return experts.down_proj[expert].T
    return experts.gate_up_proj[expert].T[name == "up_proj"::2]


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt_oss", **{**BASE, **CONFIG}), dtype=torch.float32)
    fill(model, 7)
    model.to(torch.bfloat16).save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    tensors = load_file(FOLDER / "model.safetensors")
    for name in [n for n in tensors if n.endswith((".gate_up_proj", ".down_proj"))]:
        tensors[name + "_blocks"], tensors[name + "_scales"] = pack(tensors.pop(name))
    save_file(tensors, FOLDER / "model.safetensors", {"format": "pt"})
    config = json.loads((FOLDER / "config.json").read_text())
    config["quantization_config"] = {"modules_to_not_convert": PLAIN, "quant_method": "mxfp4"}
    (FOLDER / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, **BODIES["gpt_oss"]).eval()
    ids = torch.randint(3, BASE["vocab_size"], (24,), generator=torch.Generator().manual_seed(8))
    with torch.no_grad():
        expected = {"input_ids": ids, "logits_dequant_f32": model(ids[None]).logits[0].contiguous()}
    hashes = {}
    for index, expert, name in LAYERS:
        weight = layer_of(model, index, expert, name).detach().contiguous() + 0.0
        key = f"model.layers.{index}.mlp.experts.{expert}.{name}.weight"
        expected[key] = weight[:ROWS].clone()
        hashes[key] = {"fnv1a": fnv1a(weight.numpy().tobytes()), "rows": weight.shape[0]}
    save_file(expected, FOLDER / "expected.safetensors")
    (FOLDER / "weights.json").write_text(json.dumps(hashes, indent=1) + "\n")
    print("logits std", expected["logits_dequant_f32"].std().item(), {k: tuple(v.shape) for k, v in expected.items()})


if __name__ == "__main__":
    main()
