#!/usr/bin/env python3
"""Tiny random text encoders of diffusion models, and what Transformers computes with them.

  make_text_encoders.py [NAME ...]   writes a folder per variant beside this script

Each folder is a checkpoint (config.json, model.safetensors in bfloat16). Beside it, NAME.safetensors holds, from float32 arithmetic
with the widened weights: `ids` [2, tokens], `hidden` [blocks + 1, 2, tokens, width] (the output of the embedding and of every block),
`rows` (after the final norm), `pooled` where there is one, `lengths` [2] and `rows_masked` (from an attention mask of so many tokens,
zero behind them), and `rows_bf16` from bfloat16 arithmetic. buckets.safetensors holds T5's buckets of relative positions.
t5_w4g32 is packed by auto-round's own QuantLinear; its rows are those of the weights that the codes stand for.
Made with torch 2.13.0, transformers 5.24 and auto-round 0.16.1.
"""
import json, pathlib, sys
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, CLIPTextModel, CLIPTextModelWithProjection, Qwen3Model, T5EncoderModel, UMT5EncoderModel
from transformers.models.t5.modeling_t5 import T5Attention

HERE = pathlib.Path(__file__).parent
CLIP = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=128, max_position_embeddings=24,
            projection_dim=48)
T5 = dict(d_model=64, d_kv=24, d_ff=80, num_layers=3, num_heads=4, vocab_size=128, relative_attention_num_buckets=16,
          relative_attention_max_distance=24, feed_forward_proj="gated-gelu")
QWEN3 = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32, intermediate_size=96,
             vocab_size=128, max_position_embeddings=256)

# name: (class, model_type, config, tokens, what is done to the names in the file)
VARIANTS = {
    # The end token is the highest id; the config's is the historic 2.
    "clip": (CLIPTextModel, "clip_text_model", dict(CLIP, hidden_act="quick_gelu", bos_token_id=0, eos_token_id=2), 24, None),
    "clip_projected": (CLIPTextModelWithProjection, "clip_text_model", dict(CLIP, hidden_act="gelu", eos_token_id=120), 20, None),
    "clip_bare": (CLIPTextModel, "clip_text_model", dict(CLIP, hidden_act="quick_gelu", eos_token_id=120), 24, "bare"),
    "t5": (T5EncoderModel, "t5", T5, 40, None),
    "t5_relu": (T5EncoderModel, "t5", dict(T5, feed_forward_proj="relu", relative_attention_num_buckets=32,
                                           relative_attention_max_distance=128), 40, "encoder"),
    "umt5": (UMT5EncoderModel, "umt5", T5, 40, None),
    "qwen3": (Qwen3Model, "qwen3", QWEN3, 24, None),
    "t5_w4g32": (T5EncoderModel, "t5", dict(T5, d_kv=16, d_ff=96), 40, "quantized"),
}
SEEDS = {name: 7000 + 10 * number for number, name in enumerate(VARIANTS)}


def fill(model, seed):
    """Every parameter random: norms near their neutral value, so that a missing one shows; scores of attention near one."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if p.dim() == 1:
            value = (1.0 + 0.2 * noise) if "norm" in name and name.endswith("weight") else 0.2 * noise
        elif "relative_attention_bias" in name or "embed" in name or "shared" in name:
            value = noise
        else:
            value = 1.2 * noise / p.shape[-1] ** 0.5
            if name.endswith("SelfAttention.q.weight"): value = value / model.config.d_kv ** 0.5
        p.data = value.to(torch.bfloat16).to(p.dtype)
    model.tie_weights()


def blocks_of(model):
    for path in ("text_model.encoder.layers", "encoder.block", "encoder.layers", "layers"):
        try:
            return model.get_submodule(path)
        except AttributeError:
            pass


def run(model, ids, mask=None):
    outputs = []
    blocks = blocks_of(model)
    hooks = [blocks[0].register_forward_pre_hook(lambda _, args, kwargs: outputs.append(args[0] if args else kwargs["hidden_states"]),
                                                 with_kwargs=True)]
    hooks += [b.register_forward_hook(lambda _, args, out: outputs.append(out[0] if isinstance(out, tuple) else out)) for b in blocks]
    with torch.no_grad():
        result = model(input_ids=ids, attention_mask=mask)
    for hook in hooks: hook.remove()
    pooled = result.text_embeds if hasattr(result, "text_embeds") else getattr(result, "pooler_output", None)
    return result.last_hidden_state.float(), torch.stack(outputs).float(), pooled


def make_ids(model_type, config, tokens, seed):
    ids = torch.randint(3, 119, (2, tokens), generator=torch.Generator().manual_seed(seed))
    if model_type == "clip_text_model":  # ends at different places; padded with ends
        eos = 127 if config["eos_token_id"] == 2 else 120
        ids[0, 9:], ids[1, tokens - 3:] = eos, eos
    return ids


def rounded(weight, group):
    """Symmetric 4 bits: codes, float16 scales [out, groups], and the weight they stand for."""
    grouped = weight.reshape(weight.shape[0], -1, group)
    scale = (grouped.abs().amax(-1) / 7.5).half().float()
    codes = (grouped / scale[..., None]).round().clamp(-8, 7)
    return scale, (codes * scale[..., None]).reshape(weight.shape)


def quantize(model, folder, group=32):
    """Blocks' linear layers as auto-round stores them; the model is left with the values of its codes."""
    from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
    tensors = load_file(folder / "model.safetensors")
    for name, layer in model.encoder.block.named_modules():
        if not isinstance(layer, torch.nn.Linear): continue
        scale, values = rounded(layer.weight.data.float(), group)
        layer.weight.data = values
        packed = QuantLinear(4, group, layer.in_features, layer.out_features, False)
        packed.pack(layer, scale, torch.full_like(scale, 8), None, device="cpu")
        prefix = f"encoder.block.{name}"
        del tensors[f"{prefix}.weight"]
        for part in ("qweight", "qzeros", "scales"): tensors[f"{prefix}.{part}"] = getattr(packed, part).contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = dict(quant_method="auto-round", bits=4, group_size=group, sym=True, data_type="int",
                                         packing_format="auto_round:auto_gptq", block_name_to_quantize="encoder.block",
                                         autoround_version="0.16.1")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def rename(folder, kind):
    tensors = load_file(folder / "model.safetensors")
    if kind == "bare": tensors = {name.removeprefix("text_model."): t for name, t in tensors.items()}
    if kind == "encoder": tensors = {name.replace("shared.weight", "encoder.embed_tokens.weight"): t for name, t in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def make(name):
    kind, model_type, settings, tokens, change = VARIANTS[name]
    torch.manual_seed(0)
    model = kind._from_config(AutoConfig.for_model(model_type, **settings), dtype=torch.float32, attn_implementation="eager").eval()
    fill(model, SEEDS[name])
    folder = HERE / name
    model.to(torch.bfloat16).save_pretrained(folder)
    half = kind.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    if change == "quantized": quantize(model, folder)
    elif change: rename(folder, change)
    ids = make_ids(model_type, settings, tokens, SEEDS[name] + 1)
    lengths = torch.tensor([10, tokens - 2])
    mask = (torch.arange(tokens)[None] < lengths[:, None]).long()
    rows, hidden, pooled = run(model, ids)
    out = {"ids": ids, "hidden": hidden, "rows": rows, "lengths": lengths, "rows_masked": run(model, ids, mask)[0] * mask[..., None],
           "rows_bf16": run(half, ids)[0]}
    if change == "quantized": del out["rows_bf16"]  # of other weights
    if pooled is not None: out["pooled"] = pooled
    save_file({k: v.contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")
    print(name, "rows std", round(rows.std().item(), 3))


def make_buckets():
    positions = torch.arange(-1100, 1101)
    out = {f"{n}.{far}": T5Attention._relative_position_bucket(positions, True, n, far) for n, far in ((32, 128), (16, 24), (8, 100))}
    save_file(out, HERE / "buckets.safetensors")


if __name__ == "__main__":
    for variant in VARIANTS:
        if len(sys.argv) == 1 or variant in sys.argv[1:]: make(variant)
    if len(sys.argv) == 1: make_buckets()
