#!/usr/bin/env python3
"""Bytes of picture models before and after quantization, from shapes alone.

    bench/checkpoint_sizes.py models/shapes-flux [--bits 4] [--group-size 128]    what a plain folder will weigh, from its files' headers
    bench/checkpoint_sizes.py models/shapes-flux QUANTIZED                        what two folders weigh, component by component
    bench/checkpoint_sizes.py --flux1-dev                                        the first for FLUX.1-dev's published configs, without files

A linear layer [out, in] of the blocks becomes codes of out x in x bits, a scale of 16 bits and a zero point of `bits` for every group of
every row, as `quaver quantize --format auto_round` writes it; all else stays at 16 bits. Tensors count, not tokenizers and configs.
"""
import argparse
import json
import math
import re
import struct
from pathlib import Path

QUANTIZED = {"transformer": r"(^|\.)(single_)?transformer_blocks\.\d+\..*\.weight$",
             "text_encoder": r"\.layers\.\d+\..*(proj|fc1|fc2)\.weight$|\.block\.\d+\..*(\.[qkvo]|wi|wi_0|wi_1|wo)\.weight$"}
WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "I64": 8, "U8": 1, "I8": 1, "F8_E4M3": 1}


def header(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


def folder_tensors(folder):
    """{component: {name: (shape, bytes)}} of a pipeline's folder."""
    out = {}
    for path in sorted(Path(folder).glob("*/*.safetensors")):
        part = out.setdefault(path.parent.name, {})
        for name, row in header(path).items():
            if name != "__metadata__":
                part[name] = (row["shape"], math.prod(row["shape"]) * WIDTHS[row["dtype"]])
    return out


def linear(out, prefix, rows, cols, bias=True):
    out[prefix + ".weight"] = ([rows, cols], 2 * rows * cols)
    if bias:
        out[prefix + ".bias"] = ([rows], 2 * rows)


def flux1_dev():
    """From the published configs: 19 double and 38 single blocks of 24 heads of 128, T5-XXL's encoder, CLIP-L."""
    width, text, pooled = 3072, 4096, 768
    dit, t5, clip = {}, {}, {}
    linear(dit, "x_embedder", width, 64), linear(dit, "context_embedder", width, text), linear(dit, "proj_out", 64, width)
    for name, cols in (("timestep", 256), ("guidance", 256), ("text", pooled)):
        linear(dit, f"time_text_embed.{name}_embedder.linear_1", width, cols)
        linear(dit, f"time_text_embed.{name}_embedder.linear_2", width, width)
    linear(dit, "norm_out.linear", 2 * width, width)
    for i in range(19):
        block = f"transformer_blocks.{i}."
        for name in ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out"):
            linear(dit, f"{block}attn.{name}", width, width)
        for name in ("norm_q", "norm_k", "norm_added_q", "norm_added_k"):
            dit[f"{block}attn.{name}.weight"] = ([128], 256)
        for name in ("norm1.linear", "norm1_context.linear"):
            linear(dit, block + name, 6 * width, width)
        for name in ("ff", "ff_context"):
            linear(dit, f"{block}{name}.net.0.proj", 4 * width, width), linear(dit, f"{block}{name}.net.2", width, 4 * width)
    for i in range(38):
        block = f"single_transformer_blocks.{i}."
        for name in ("to_q", "to_k", "to_v"):
            linear(dit, f"{block}attn.{name}", width, width)
        for name in ("norm_q", "norm_k"):
            dit[f"{block}attn.{name}.weight"] = ([128], 256)
        linear(dit, block + "norm.linear", 3 * width, width)
        linear(dit, block + "proj_mlp", 4 * width, width), linear(dit, block + "proj_out", width, 5 * width)
    t5["shared.weight"] = ([32128, text], 2 * 32128 * text)
    t5["encoder.final_layer_norm.weight"] = ([text], 2 * text)
    for i in range(24):
        block = f"encoder.block.{i}.layer."
        for name in "qkvo":
            linear(t5, f"{block}0.SelfAttention.{name}", 4096, text, False)
        for name, shape in (("wi_0", (10240, text)), ("wi_1", (10240, text)), ("wo", (text, 10240))):
            linear(t5, f"{block}1.DenseReluDense.{name}", *shape, False)
        for layer in (0, 1):
            t5[f"{block}{layer}.layer_norm.weight"] = ([text], 2 * text)
    t5["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = ([32, 64], 2 * 32 * 64)
    clip["text_model.embeddings.token_embedding.weight"] = ([49408, pooled], 2 * 49408 * pooled)
    clip["text_model.embeddings.position_embedding.weight"] = ([77, pooled], 2 * 77 * pooled)
    clip["text_model.final_layer_norm"] = ([2, pooled], 4 * pooled)
    for i in range(12):
        block = f"text_model.encoder.layers.{i}."
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(clip, f"{block}self_attn.{name}", pooled, pooled)
        linear(clip, block + "mlp.fc1", 4 * pooled, pooled), linear(clip, block + "mlp.fc2", pooled, 4 * pooled)
        clip[block + "layer_norms"] = ([4, pooled], 8 * pooled)
    vae = {"all of it": ([83819683], 2 * 83819683)}
    return {"text_encoder": clip, "text_encoder_2": t5, "transformer": dit, "vae": vae}


def quantized_bytes(component, name, shape, before, bits, group):
    pattern = QUANTIZED.get(component.removesuffix("_2"))
    if len(shape) != 2 or pattern is None or not re.search(pattern, name):
        return before
    rows, cols = shape
    groups = math.ceil(cols / group)
    return rows * cols * bits // 8 + groups * rows * 2 + groups * rows * bits // 8


def predicted(tensors, bits, group):
    return {component: {name: (shape, quantized_bytes(component, name, shape, size, bits, group)) for name, (shape, size) in part.items()}
            for component, part in tensors.items()}


def total(part):
    return sum(size for _, size in part.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--flux1-dev", action="store_true")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=128)
    args = parser.parse_args()
    before = flux1_dev() if args.flux1_dev else folder_tensors(args.folders[0])
    after = folder_tensors(args.folders[1]) if len(args.folders) > 1 else predicted(before, args.bits, args.group_size)
    print(f"{'':16} {'before, MB':>12} {'after, MB':>12}  share")
    for component, part in before.items():
        print(f"{component:16} {total(part) / 1e6:12.2f} {total(after[component]) / 1e6:12.2f}  {total(after[component]) / total(part):.3f}")
    whole = [sum(map(total, parts.values())) for parts in (before, after)]
    print(f"{'folder':16} {whole[0] / 1e6:12.2f} {whole[1] / 1e6:12.2f}  {whole[1] / whole[0]:.3f}")


main()
