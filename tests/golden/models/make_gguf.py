#!/usr/bin/env python3
"""Tiny GGUF files of every architecture that can be opened, and the logits of the Transformers model that each holds.

  make_gguf.py [--check]     writes gguf/NAME.gguf and gguf/NAME.safetensors (`ids`, `logits`) beside this script; --check also asks
                             llama.cpp (llama-cpp-python) for the logits, so that the files are known to be what others read

Tensor names come from the gguf package's own map. Made with transformers 5.24 and gguf 0.19.
"""
import pathlib, sys
import gguf, numpy as np, torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from make_models import fill

OUT = pathlib.Path(__file__).parent / "gguf"
TOKENS, VOCAB = 12, 64
BASE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=64, vocab_size=VOCAB,
            max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, moe_intermediate_size=32, head_dim=16)
GEMMA = dict(num_hidden_layers=7, head_dim=16, query_pre_attn_scalar=16, sliding_window=4, tie_word_embeddings=True,
             layer_types=["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
             rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                  sliding_attention=dict(rope_type="default", rope_theta=1e4)))
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192, rope_theta=5e5)
# name: (architecture, model_type, config, type of the matrices)
FILES = {
    "llama_q8": (gguf.MODEL_ARCH.LLAMA, "llama", {}, gguf.GGMLQuantizationType.Q8_0),
    "llama3_tied": (gguf.MODEL_ARCH.LLAMA, "llama", dict(max_position_embeddings=16384, tie_word_embeddings=True, attention_bias=True, rope_parameters=LLAMA3), gguf.GGMLQuantizationType.BF16),
    "qwen2_yarn": (gguf.MODEL_ARCH.QWEN2, "qwen2", dict(rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=1e5)), gguf.GGMLQuantizationType.BF16),
    "qwen3": (gguf.MODEL_ARCH.QWEN3, "qwen3", dict(head_dim=32), gguf.GGMLQuantizationType.F16),
    "qwen3moe": (gguf.MODEL_ARCH.QWEN3MOE, "qwen3_moe", EXPERTS, gguf.GGMLQuantizationType.BF16),
    "gemma3": (gguf.MODEL_ARCH.GEMMA3, "gemma3_text", GEMMA, gguf.GGMLQuantizationType.BF16),
}


def rope_factors(dim, rope):
    """The divisors of the frequencies under scaling by parts."""
    freqs = 1.0 / rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    waves = 2 * np.pi / freqs
    low, high = (rope["original_max_position_embeddings"] / rope[k] for k in ("low_freq_factor", "high_freq_factor"))
    smooth = (rope["original_max_position_embeddings"] / waves - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    blended = 1 / ((1 - smooth) / rope["factor"] + smooth)
    return np.where(waves < high, 1, np.where(waves > low, rope["factor"], blended)).astype(np.float32)


def add_metadata(writer, config, model_type):
    head_dim = config.head_dim if getattr(config, "head_dim", None) else config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    full = rope.get("full_attention", rope)
    writer.add_context_length(config.max_position_embeddings); writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers); writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads); writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim); writer.add_value_length(head_dim); writer.add_rope_dimension_count(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps); writer.add_rope_freq_base(full["rope_theta"])
    if full["rope_type"] in ("yarn", "linear"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(full["rope_type"])); writer.add_rope_scaling_factor(full["factor"])
    if full["rope_type"] == "yarn": writer.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    if model_type == "qwen3_moe":
        writer.add_expert_count(config.num_experts); writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if model_type == "gemma3_text": writer.add_sliding_window(config.sliding_window)


def add_vocabulary(writer):
    tokens = ["<unk>", "<s>", "</s>", "<|im_end|>"] + [chr(0x41 + i) for i in range(VOCAB - 4)]
    writer.add_tokenizer_model("gpt2"); writer.add_tokenizer_pre("default"); writer.add_token_list(tokens)
    writer.add_token_types([3] * 4 + [1] * (VOCAB - 4)); writer.add_token_merges(["A B"])
    writer.add_bos_token_id(1); writer.add_eos_token_id(2); writer.add_unk_token_id(0); writer.add_add_bos_token(True)
    writer.add_chat_template("{{ messages[0]['content'] }}")


def interleaved(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def stored(name, w, config, model_type):
    if model_type == "llama" and ".q_proj." in name: return interleaved(w, config.num_attention_heads)
    if model_type == "llama" and ".k_proj." in name: return interleaved(w, config.num_key_value_heads)
    return w + 1 if model_type == "gemma3_text" and name.endswith("norm.weight") else w


def stacked_experts(state):
    """Transformers keeps gate and up of all experts in one tensor; files keep three stacks."""
    result = {}
    for name, w in state.items():
        if name.endswith("experts.gate_up_proj"):
            stem = name.removesuffix("gate_up_proj")
            result[stem + "gate_proj.weight"], result[stem + "up_proj.weight"] = np.split(w, 2, axis=1)
        else:
            result[name + ".weight" if name.endswith("experts.down_proj") else name] = w
    return result


def write(name):
    arch, model_type, changes, kind = FILES[name]
    config = AutoConfig.for_model(model_type, **{**BASE, **changes})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    fill(model, 7)
    if kind == gguf.GGMLQuantizationType.Q8_0:  # the model computes with what the file can hold; the embedding is read as bfloat16
        for key, p in model.named_parameters():
            if p.dim() == 2:
                blocks = gguf.quantize(p.detach().numpy(), kind)
                p.data = torch.from_numpy(gguf.dequantize(blocks, kind).reshape(p.shape))
                if "embed" in key: p.data = p.data.to(torch.bfloat16).float()
    state = stacked_experts({k: v.detach().numpy() for k, v in model.state_dict().items()})
    if config.tie_word_embeddings: state.pop("lm_head.weight", None)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    add_metadata(writer, config, model_type); add_vocabulary(writer)
    for key, w in state.items():
        target = names.get_name(key, try_suffixes=(".weight", ".bias"))
        assert target, key
        w = np.ascontiguousarray(stored(key, w, config, model_type))
        if w.ndim == 1: writer.add_tensor(target, w.astype(np.float32))
        else: writer.add_tensor(target, gguf.quantize(w, kind), raw_dtype=kind)
    if config.rope_parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(config.hidden_size // config.num_attention_heads, config.rope_parameters))
    writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()
    ids = torch.randint(4, VOCAB, (TOKENS,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad(): logits = model(ids[None]).logits[0]
    save_file({"ids": ids, "logits": logits.contiguous()}, OUT / f"{name}.safetensors")
    return ids, logits


def check(name, ids, logits):
    import llama_cpp
    other = llama_cpp.Llama(str(OUT / f"{name}.gguf"), n_ctx=128, logits_all=True, verbose=False, n_threads=1)
    other.eval(ids.tolist())
    error = np.abs(np.array(other.scores[:TOKENS]) - logits.numpy()).max()
    print(name, "largest difference to llama.cpp", round(float(error), 4), "of", round(logits.std().item(), 2))


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for file in FILES:
        ids, logits = write(file)
        if "--check" in sys.argv: check(file, ids, logits)
