#!/usr/bin/env python3
"""Writes a sharded folder of a wanted size with random weights, for measurements of loading; no quantizer is run.

  tools/synthetic_model.py FOLDER --gib 2 [--experts 8] [--stored int4|plain|fp8|nvfp4]

Every layer holds the same bytes: only their number matters here.
"""
import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

GROUP = 128
SMALLEST = {"hidden": 256, "width": 512, "vocabulary": 256}  # half a megabyte


def packed(name, rows, cols):
    """One layer of 4 bits in GPTQ's words, [rows, cols]."""
    word = torch.iinfo(torch.int32)
    return {f"{name}.qweight": torch.randint(word.min, word.max, (cols // 8, rows), dtype=torch.int32),
            f"{name}.qzeros": torch.full((cols // GROUP, rows // 8), 0x77777777, dtype=torch.int32),
            f"{name}.scales": torch.full((cols // GROUP, rows), 0.002, dtype=torch.float16)}


def plain_layer(name, rows, cols):
    return {f"{name}.weight": torch.randn(rows, cols, dtype=torch.bfloat16) * 0.02}


def fp8_layer(name, rows, cols):
    """8-bit floats with a scale for 128 x 128 of them."""
    return {f"{name}.weight": torch.randn(rows, cols).to(torch.float8_e4m3fn),
            f"{name}.weight_scale_inv": torch.full((-(-rows // 128), -(-cols // 128)), 0.02)}


def nvfp4_layer(name, rows, cols):
    """4-bit floats, a scale of 8 bits for 16 of them, and one over all."""
    return {f"{name}.weight_packed": torch.randint(0, 256, (rows, cols // 2), dtype=torch.uint8),
            f"{name}.weight_scale": torch.full((rows, cols // 16), 4.0).to(torch.float8_e4m3fn),
            f"{name}.weight_global_scale": torch.tensor([1000.0])}


# How layers are stored: their tensors, and the configuration's part.
STORED = {
    "int4": (packed, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False}),
    "plain": (plain_layer, None),
    "fp8": (fp8_layer, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}),
    "nvfp4": (nvfp4_layer, {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["lm_head"],
                            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                                "num_bits": 4, "type": "float", "symmetric": True, "group_size": 16, "strategy": "tensor_group"}}}}),
}


def feed_forward(hidden, width, name, linear):
    return {**linear(f"{name}.gate_proj", width, hidden), **linear(f"{name}.up_proj", width, hidden),
            **linear(f"{name}.down_proj", hidden, width)}


def layer_tensors(hidden, width, experts, linear):
    tensors = {f"{norm}.weight": torch.ones(hidden, dtype=torch.bfloat16) for norm in ("input_layernorm", "post_attention_layernorm")}
    for part in "qkvo":
        tensors.update(linear(f"self_attn.{part}_proj", hidden, hidden))
    if not experts:
        return {**tensors, **feed_forward(hidden, width, "mlp", linear)}
    tensors.update({f"self_attn.{norm}.weight": torch.ones(128, dtype=torch.bfloat16) for norm in ("q_norm", "k_norm")})
    tensors["mlp.gate.weight"] = torch.randn(experts, hidden, dtype=torch.bfloat16)
    for e in range(experts):
        tensors.update(feed_forward(hidden, width, f"mlp.experts.{e}", linear))
    return tensors


def config(hidden, width, layers, experts, vocabulary, stored):
    common = {"hidden_size": hidden, "intermediate_size": width, "num_hidden_layers": layers, "head_dim": 128,
              "num_attention_heads": hidden // 128, "num_key_value_heads": hidden // 128, "vocab_size": vocabulary,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
              "hidden_act": "silu", "torch_dtype": "bfloat16"}
    if STORED[stored][1]:
        common["quantization_config"] = STORED[stored][1]
    if experts:
        return {**common, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": experts,
                "num_experts_per_tok": 2, "moe_intermediate_size": width, "norm_topk_prob": True, "decoder_sparse_step": 1,
                "mlp_only_layers": []}
    return {**common, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def save_tokenizer(folder):
    """A token for each byte."""
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.save(str(folder / "tokenizer.json"))


def size_of(tensors):
    return sum(t.nbytes for t in tensors.values())


def write(folder, size_bytes, hidden=2048, width=8192, experts=0, vocabulary=32000, shard_bytes=1 << 28, stored="int4"):
    """A folder of about `size_bytes`, a layer at least. Returns the bytes of all tensors and those of the largest."""
    torch.manual_seed(0)
    folder.mkdir(parents=True)
    rest = {"model.embed_tokens.weight": torch.randn(vocabulary, hidden).to(torch.bfloat16),
            "model.norm.weight": torch.ones(hidden, dtype=torch.bfloat16)}
    layer = layer_tensors(hidden, width, experts, STORED[stored][0])
    layers = max(1, round((size_bytes - size_of(rest)) / size_of(layer)))
    per_shard = max(1, shard_bytes // size_of(layer))
    where = {}
    for at in range(0, layers, per_shard):
        tensors = {f"model.layers.{i}.{n}": t for i in range(at, min(at + per_shard, layers)) for n, t in layer.items()}
        file = f"model-{at // per_shard + 1:05}.safetensors"
        save_file({n: t.clone() for n, t in tensors.items()}, folder / file, {"format": "pt"})
        where.update(dict.fromkeys(tensors, file))
    save_file(rest, folder / "model-rest.safetensors", {"format": "pt"})
    where.update(dict.fromkeys(rest, "model-rest.safetensors"))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    (folder / "config.json").write_text(json.dumps(config(hidden, width, layers, experts, vocabulary, stored)))
    save_tokenizer(folder)
    return size_of(layer) * layers + size_of(rest), max(t.nbytes for t in [*layer.values(), *rest.values()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gib", type=float, default=2, help="size of all tensors")
    parser.add_argument("--experts", type=int, default=0, help="a mixture of so many experts instead of dense layers")
    parser.add_argument("--stored", choices=STORED, default="int4", help="plain: in bf16")
    a = parser.parse_args()
    total, largest = write(a.folder, int(a.gib * 2**30), experts=a.experts, width=1024 if a.experts else 8192, stored=a.stored)
    print(f"{a.folder}: {total / 2**20:.0f} MiB, the largest tensor {largest / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
