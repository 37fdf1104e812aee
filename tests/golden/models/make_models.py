#!/usr/bin/env python3
"""Tiny random models of every decoder family, and what Transformers computes with them.

  make_models.py [NAME ...]   writes a folder per variant beside this script

Each folder is a checkpoint (config.json, model.safetensors in bfloat16). Beside it, NAME.safetensors holds `ids` [24], `logits` and
`hidden` (the output of the embedding and of every layer) in float32 arithmetic from the widened weights, `logits_bf16` in bfloat16.
Made with torch 2.13.0 and transformers 5.24.
"""
import json, pathlib, sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoConfig

HERE = pathlib.Path(__file__).parent
TOKENS = 24
BASE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, vocab_size=128,
            max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, moe_intermediate_size=32)

# name: (model_type, config, edit of the written config.json)
VARIANTS = {
    "llama": ("llama", dict(rms_norm_eps=1e-5), None),
    "llama_scaled_tied": ("llama", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                        rope_parameters=dict(rope_theta=5e5, **LLAMA3)), None),
    # The older spelling of the rope settings, and a head size of its own.
    "llama_old_linear": ("llama", dict(head_dim=24, rope_parameters=dict(rope_theta=2e4, rope_type="linear", factor=4.0)), "old"),
    "llama_yarn": ("llama", dict(rope_parameters=dict(rope_theta=1e4, rope_type="yarn", factor=4.0,
                                                      original_max_position_embeddings=64)), None),
    "qwen2_window": ("qwen2", dict(use_sliding_window=True, sliding_window=8, max_window_layers=1), None),
    "qwen3_tied": ("qwen3", dict(head_dim=32, tie_word_embeddings=True), None),
    "qwen3_moe": ("qwen3_moe", dict(num_hidden_layers=3, head_dim=16, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True,
                                    moe_intermediate_size=32, mlp_only_layers=[1]), None),
    "qwen3_moe_raw": ("qwen3_moe", dict(num_experts=4, num_experts_per_tok=3, norm_topk_prob=False, moe_intermediate_size=32,
                                        decoder_sparse_step=2, head_dim=16), None),
    "gemma3_text": ("gemma3_text", dict(num_hidden_layers=4, num_key_value_heads=1, head_dim=16, sliding_window=6,
                                        query_pre_attn_scalar=24, final_logit_softcapping=5.0, tie_word_embeddings=True,
                                        layer_types=["sliding_attention", "full_attention"] * 2,
                                        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                                             sliding_attention=dict(rope_type="default", rope_theta=1e4))), None),
    # The published spelling: a pattern instead of a list, and theta for each kind of layer.
    "gemma3_old": ("gemma3_text", dict(num_hidden_layers=3, head_dim=16, sliding_window=5, tie_word_embeddings=True,
                                       query_pre_attn_scalar=16, layer_types=["sliding_attention"] * 2 + ["full_attention"]), "old"),
    # A limit that cuts many values; bounds of the rope that rounding would move.
    "gpt_oss": ("gpt_oss", dict(num_hidden_layers=4, head_dim=16, intermediate_size=32, num_local_experts=5, num_experts_per_tok=2,
                                sliding_window=6, swiglu_limit=1.5,
                                rope_parameters=dict(rope_theta=1.5e5, rope_type="yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0,
                                                     truncate=False, original_max_position_embeddings=64)), None),
    # Latent attention. Groups of experts judged by their best two, a rank for the queries, rope stretched with its softmax factor.
    "deepseek_v3": ("deepseek_v3", dict(LATENT, num_hidden_layers=3, q_lora_rank=24, attention_bias=True, first_k_dense_replace=1,
                                        n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2,
                                        norm_topk_prob=True, routed_scaling_factor=2.5, rms_norm_eps=1e-5,
                                        rope_parameters=dict(rope_theta=1e4, rope_type="yarn", factor=4.0, beta_fast=4.0,
                                                             original_max_position_embeddings=64, mscale=0.7, mscale_all_dim=1.3)),
                    None),
    # No rank for the queries, one group, two shared experts; values wider than keys.
    "deepseek_v2_lite": ("deepseek_v2", dict(LATENT, q_lora_rank=None, v_head_dim=32, first_k_dense_replace=1, n_routed_experts=6,
                                             num_experts_per_tok=2, n_shared_experts=2, topk_method="greedy",
                                             routed_scaling_factor=1.0), None),
    # The published spelling, and groups judged by their best one.
    "deepseek_v2_groups": ("deepseek_v2", dict(LATENT, q_lora_rank=24, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                                               topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=4.0,
                                               rope_parameters=dict(rope_theta=1e4, rope_type="yarn", factor=4.0,
                                                                    original_max_position_embeddings=64, mscale=0.707,
                                                                    mscale_all_dim=0.707)), "old"),
}
# Bodies that round where the formulas say so.
BODIES = {"gpt_oss": dict(attn_implementation="eager", experts_implementation="eager")}

# Where no expert is chosen by a hair, so that bfloat16 chooses the same; the others take theirs from their place in the list.
SEEDS = {"gpt_oss": 2643, "deepseek_v3": 1000, "deepseek_v2_lite": 1200, "deepseek_v2_groups": 1500}


def fill(model, seed):
    """Every parameter random: norms near their neutral value, so that a missing one shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        is_norm = p.dim() == 1 and "norm" in name
        neutral = 1.0 if is_norm and "Gemma" not in type(model).__name__ else 0.0
        scale = 0.2 if is_norm else 1.5 if "sinks" in name else 0.1 if p.dim() == 1 else 1.5 / p.shape[-1] ** 0.5
        p.data = (neutral + scale * noise).to(torch.bfloat16).to(p.dtype)
    for name, b in model.named_buffers():
        if "bias" in name: b.data = (0.2 * torch.randn(b.shape, generator=generator)).to(torch.bfloat16).to(b.dtype)
    model.tie_weights()


def old_spelling(config):
    rope = config.pop("rope_parameters")
    if config["model_type"] == "gemma3_text":
        config["rope_theta"] = rope["full_attention"]["rope_theta"]
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        config["rope_scaling"] = None
        config.pop("layer_types")
        config["sliding_window_pattern"] = 3
    else:
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}


def run(model, ids):
    outputs = []
    hooks = [model.model.layers[0].register_forward_pre_hook(
        lambda _, args, kwargs: outputs.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True)]
    hooks += [layer.register_forward_hook(lambda _, args, out: outputs.append(out[0] if isinstance(out, tuple) else out))
              for layer in model.model.layers]
    with torch.no_grad():
        logits = model(ids[None]).logits[0].float()
    for hook in hooks: hook.remove()
    return logits.contiguous(), torch.stack([h.reshape(len(ids), -1) for h in outputs]).float()


def make(name, seed):
    model_type, changes, spelling = VARIANTS[name]
    config = AutoConfig.for_model(model_type, **{**BASE, **changes})
    bodies = BODIES.get(model_type, dict(attn_implementation="sdpa"))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **bodies).eval()
    fill(model, seed)
    ids = torch.randint(3, BASE["vocab_size"], (TOKENS,), generator=torch.Generator().manual_seed(seed + 1))
    logits, hidden = run(model, ids)
    folder = HERE / name
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    # The frequencies must not be rounded with the weights, so the bfloat16 model is read back.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **bodies).eval()
    logits_bf16, _ = run(model, ids)
    save_file({"ids": ids, "logits": logits, "hidden": hidden, "logits_bf16": logits_bf16}, HERE / f"{name}.safetensors")
    if spelling == "old":
        text = json.loads((folder / "config.json").read_text())
        old_spelling(text)
        (folder / "config.json").write_text(json.dumps(text, indent=2) + "\n")
    print(name, "logits std", round(logits.std().item(), 3), "bf16 error", round((logits - logits_bf16).abs().max().item(), 4))


if __name__ == "__main__":
    for number, variant in enumerate(VARIANTS):
        if len(sys.argv) == 1 or variant in sys.argv[1:]:
            make(variant, SEEDS.get(variant, 100 * number))
