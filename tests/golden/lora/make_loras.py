"""LoRA files in every spelling, and what diffusers makes of them in float32.

    python make_loras.py        (diffusers 0.42.1, PEFT 0.21.2, transformers 5.24, torch 2.13 CPU)

SPELLING.safetensors are the files, for the transformer in ../diffusion/flux_guided; velocities.safetensors holds its output
for the inputs in ../diffusion/flux_guided.safetensors under each (its name), under `diffusers` and `kohya` at once with
scales 0.5 and -1.5 (`two`), and under none (`none`). shapes-*.safetensors are for models/shapes-flux, latents.safetensors the
final latents (packed) of a run of four steps with them; its metadata says how.

diffusers' converters carry FLUX.1's own sizes and numbers of blocks: they are run with the tiny model's in their place. Three
things that they lose are put back: the prefix of layers outside of the blocks, T5's layers, and the weights of a text encoder,
which transformers 5 draws anew when diffusers adds adapters to it. For these two W + scale * up down is written into the encoder.
"""
import inspect
import json
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from diffusers.loaders import lora_conversion_utils as converters
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent
TINY = HERE.parent / "diffusion"
SHAPES = HERE.parents[2] / "models" / "shapes-flux"


def converter(name, width, doubles, singles):
    source = inspect.getsource(getattr(converters, name))
    for size, own in (("12288", 4 * width), ("3072", width), ("range(19)", f"range({doubles})"), ("range(38)", f"range({singles})"),
                      ("num_layers = 19", f"num_layers = {doubles}"), ("num_single_layers = 38", f"num_single_layers = {singles}")):
        source = source.replace(size, str(own))
    space = dict(vars(converters))
    exec(source, space)
    return space[name]


class Draw:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape, dtype=torch.float16):
        return (torch.randn(*shape, generator=self.generator) * (0.6 / shape[1] ** 0.5)).to(dtype)


def pair(draw, tensors, layer, ends, rank, out, width, alpha=None, dtype=torch.float16):
    tensors[f"{layer}.{ends[0]}"], tensors[f"{layer}.{ends[1]}"] = draw(rank, width, dtype=dtype), 2 * draw(out, rank, dtype=dtype)
    if alpha is not None:
        tensors[f"{layer}.alpha"] = torch.tensor(float(alpha))


PEFT, KOHYA = ("lora_A.weight", "lora_B.weight"), ("lora_down.weight", "lora_up.weight")
OLD, XLABS = ("lora.down.weight", "lora.up.weight"), ("down.weight", "up.weight")


def sizes(w, outer):
    """Out and in of the layers that files name, by diffusers' names and by those of the first release."""
    double = {"norm1.linear": (6 * w, w), "norm1_context.linear": (6 * w, w), "attn.to_q": (w, w), "attn.to_k": (w, w), "attn.to_v": (w, w),
              "attn.add_q_proj": (w, w), "attn.add_k_proj": (w, w), "attn.add_v_proj": (w, w), "attn.to_out.0": (w, w),
              "attn.to_add_out": (w, w), "ff.net.0.proj": (4 * w, w), "ff.net.2": (w, 4 * w), "ff_context.net.0.proj": (4 * w, w),
              "ff_context.net.2": (w, 4 * w)}
    single = {"norm.linear": (3 * w, w), "attn.to_q": (w, w), "attn.to_k": (w, w), "attn.to_v": (w, w), "proj_mlp": (4 * w, w),
              "proj_out": (w, 5 * w)}
    first_double = {"img_mod.lin": (6 * w, w), "txt_mod.lin": (6 * w, w), "img_attn.qkv": (3 * w, w), "txt_attn.qkv": (3 * w, w),
                    "img_attn.proj": (w, w), "txt_attn.proj": (w, w), "img_mlp.0": (4 * w, w), "img_mlp.2": (w, 4 * w),
                    "txt_mlp.0": (4 * w, w), "txt_mlp.2": (w, 4 * w)}
    first_single = {"modulation.lin": (3 * w, w), "linear1": (7 * w, w), "linear2": (w, 5 * w)}
    text, pooled, channels = outer
    first_outer = {"img_in": (w, channels), "txt_in": (w, text), "time_in.in_layer": (w, 256), "time_in.out_layer": (w, w),
                   "guidance_in.in_layer": (w, 256), "guidance_in.out_layer": (w, w), "vector_in.in_layer": (w, pooled),
                   "vector_in.out_layer": (w, w), "final_layer.linear": (channels, w), "final_layer.adaLN_modulation.1": (2 * w, w)}
    return double, single, first_double, first_single, first_outer


def tiny_files():
    """Name -> (tensors, metadata, converter or none)."""
    w, doubles, singles = 48, 2, 2
    double, single, first_double, first_single, first_outer = sizes(w, (24, 20, 16))
    kohya = converter("_convert_kohya_flux_lora_to_diffusers", w, doubles, singles)
    fal = converter("_convert_fal_kontext_lora_to_diffusers", w, doubles, singles)
    files = {}

    def file(name, seed, convert=None, metadata=None):
        tensors = {}
        files[name] = (tensors, metadata, convert)
        draw = Draw(seed)
        return lambda *args, **kw: pair(draw, tensors, *args, **kw)

    add = file("diffusers", 1)
    for block, layers in (("transformer_blocks.1", double), ("single_transformer_blocks.0", single)):
        for n, (layer, (o, i)) in enumerate(layers.items()):
            add(f"transformer.{block}.{layer}", PEFT, 1 + n % 2, o, i)
    # Alphas beside the tensors, and in the header.
    add = file("diffusers_alpha", 2)
    for n, layer in enumerate(("attn.to_q", "attn.to_out.0", "ff.net.2")):
        add(f"transformer.transformer_blocks.0.{layer}", PEFT, 2, *double[layer], alpha=1 if n else 4)
    settings = {"r": 2, "lora_alpha": 1, "rank_pattern": {"attn.to_k": 4}, "alpha_pattern": {"attn.to_k": 8}, "use_rslora": False, "use_dora": False,
                "target_modules": ["attn.to_q", "attn.to_k"], "peft_type": "LORA", "lora_bias": False}
    add = file("diffusers_settings", 3, metadata={"lora_adapter_metadata": json.dumps({f"transformer.{k}": v for k, v in settings.items()})})
    for block in range(2):
        add(f"transformer.transformer_blocks.{block}.attn.to_q", PEFT, 2, w, w)
        add(f"transformer.transformer_blocks.{block}.attn.to_k", PEFT, 4, w, w)
    add = file("diffusers_down_up", 4, convert=kohya)
    for layer in ("attn.to_v", "ff_context.net.0.proj"):
        add(f"transformer.transformer_blocks.0.{layer}", KOHYA, 2, *double[layer])
    add = file("kohya", 5, convert=kohya)
    for n, (layer, (o, i)) in enumerate(first_double.items()):
        add(f"lora_unet_double_blocks_0_{layer.replace('.', '_')}", KOHYA, 2, o, i, alpha=None if n % 3 == 0 else 1, dtype=torch.float32 if n == 4 else torch.bfloat16)
    for layer, (o, i) in first_single.items():
        add(f"lora_unet_single_blocks_1_{layer.replace('.', '_')}", KOHYA, 4, o, i, alpha=8)
    add = file("kohya_outer", 6, convert=kohya)
    for layer, (o, i) in first_outer.items():
        add(f"lora_unet_{layer.replace('.', '_')}", KOHYA, 1, o, i)
    add = file("comfy", 7, convert=kohya)
    for layer in ("img_attn.qkv", "txt_mlp.2"):
        add(f"diffusion_model.double_blocks.1.{layer}", KOHYA, 2, *first_double[layer], alpha=4)
    add(f"diffusion_model.single_blocks.0.linear1", KOHYA, 2, *first_single["linear1"])
    add = file("one_trainer", 8, convert=kohya)
    for layer in ("attn.to_q", "attn.to_out.0", "attn.add_v_proj", "attn.to_add_out"):
        add(f"lora_transformer_transformer_blocks_1_{layer.replace('.', '_')}", KOHYA, 2, *double[layer], alpha=1)
    add("lora_transformer_single_transformer_blocks_1_attn_to_k", KOHYA, 1, w, w, alpha=1)
    add("lora_transformer_context_embedder", KOHYA, 1, w, 24, alpha=2)
    add = file("xlabs", 9, convert=converters._convert_xlabs_flux_lora_to_diffusers)
    for n in (1, 2):
        add(f"double_blocks.0.processor.qkv_lora{n}", XLABS, 2, 3 * w, w)
        add(f"double_blocks.0.processor.proj_lora{n}", XLABS, 2, w, w)
    add("single_blocks.1.processor.qkv_lora", XLABS, 2, 3 * w, w)
    add("single_blocks.1.processor.proj_lora", XLABS, 2, w, 5 * w)
    # The one converter for PEFT's own names wants every layer.
    add = file("peft", 10, convert=fal)
    for block in range(doubles):
        for layer, (o, i) in first_double.items():
            add(f"base_model.model.double_blocks.{block}.{layer}", PEFT, 1, o, i)
    for block in range(singles):
        for layer, (o, i) in first_single.items():
            add(f"base_model.model.single_blocks.{block}.{layer}", PEFT, 1, o, i)
    add("base_model.model.final_layer.linear", PEFT, 1, 16, w)
    return files


def converted(tensors, convert):
    if convert is None:
        return dict(tensors)
    out = convert({k: v.clone() for k, v in tensors.items()})
    return {k if k.startswith(("transformer.", "text_encoder")) else f"transformer.{k}": v.float() for k, v in out.items()}


def load(pipe, name, tensors, convert, path):
    if convert is None:
        pipe.load_lora_weights(str(path.parent), weight_name=path.name, adapter_name=name)
    else:
        pipe.load_lora_weights(converted(tensors, convert), adapter_name=name)
    pipe.transformer.float()


@torch.no_grad()
def make_velocities():
    transformer = FluxTransformer2DModel.from_pretrained(TINY / "flux_guided", dtype=torch.float32).eval()
    pipe = FluxPipeline(scheduler=FlowMatchEulerDiscreteScheduler(), vae=None, text_encoder=None, tokenizer=None, text_encoder_2=None,
                        tokenizer_2=None, transformer=transformer)
    inputs = load_file(TINY / "flux_guided.safetensors")
    image_ids = torch.zeros(3, 5, 3)
    image_ids[..., 1] += torch.arange(3)[:, None]
    image_ids[..., 2] += torch.arange(5)[None, :]

    def velocity():
        return transformer(hidden_states=inputs["latents"], encoder_hidden_states=inputs["text"], timestep=inputs["sigma"], guidance=inputs["guidance"],
                           pooled_projections=inputs["pooled"], txt_ids=torch.zeros(7, 3), img_ids=image_ids.reshape(-1, 3), return_dict=False)[0].clone()

    none = velocity()
    assert torch.allclose(none, inputs["velocity"], atol=1e-5)
    out, files = {"none": none}, tiny_files()
    for name, (tensors, metadata, convert) in files.items():
        path = HERE / f"{name}.safetensors"
        save_file(tensors, path, metadata=metadata)
        load(pipe, name, tensors, convert, path)
        count = sum(1 for m in transformer.modules() if hasattr(m, "lora_A") and name in m.lora_A)
        out[name] = velocity()
        change = ((out[name] - none).norm() / none.norm()).item()
        print(f"{name}: {path.stat().st_size} bytes, {len(tensors)} tensors, {count} layers, changes the velocity by {change:.3f}")
        pipe.unload_lora_weights()
        assert torch.equal(velocity(), none)
    for name in ("diffusers", "kohya"):
        load(pipe, name, files[name][0], files[name][2], HERE / f"{name}.safetensors")
    pipe.set_adapters(["diffusers", "kohya"], [0.5, -1.5])
    out["two"] = velocity()
    save_file(out, HERE / "velocities.safetensors")


@torch.no_grad()
def make_latents():
    w, side, steps = 256, 64, 4
    _, _, first_double, first_single, _ = sizes(w, (128, 128, 64))
    kohya = converter("_convert_kohya_flux_lora_to_diffusers", w, 3, 4)
    draw, style, form = Draw(20), {}, {}
    pair(draw, style, "lora_unet_double_blocks_2_img_attn_qkv", KOHYA, 1, *first_double["img_attn.qkv"], alpha=2)
    pair(draw, style, "lora_unet_single_blocks_3_linear1", KOHYA, 1, *first_single["linear1"], alpha=1)
    clip, t5 = "encoder.layers.1.self_attn.q_proj", "encoder.block.2.layer.0.SelfAttention.v"
    pair(draw, style, "lora_te1_text_model_" + clip.replace(".", "_"), KOHYA, 2, 128, 128, alpha=4)
    pair(draw, style, "lora_te3_" + t5.replace(".", "_"), KOHYA, 2, 128, 128, alpha=4)
    clip2, t5_2 = "encoder.layers.0.mlp.fc2", "encoder.block.1.layer.1.DenseReluDense.wi_0"
    pair(draw, form, "transformer.transformer_blocks.0.ff_context.net.2", PEFT, 1, w, 4 * w)
    pair(draw, form, f"text_encoder.text_model.{clip2}", PEFT, 1, 128, 512)
    pair(draw, form, f"text_encoder_2.{t5_2}", PEFT, 1, 320, 128)
    save_file(style, HERE / "shapes-style.safetensors")
    save_file(form, HERE / "shapes-form.safetensors")
    run = dict(prompt="a red circle left of a green square", height=side, width=side, num_inference_steps=steps, guidance_scale=3.5, max_sequence_length=64)
    noise = torch.randn(1, (side // 16) ** 2, 64, generator=torch.Generator().manual_seed(5))
    out = {"noise": noise}

    def drawn(scales):
        pipe = FluxPipeline.from_pretrained(SHAPES, dtype=torch.float32)
        pipe.set_progress_bar_config(disable=True)
        transformer_only = lambda tensors, convert: {k: v for k, v in converted(tensors, convert).items() if k.startswith("transformer.")}
        if "style" in scales:
            pipe.load_lora_weights(transformer_only({k: v for k, v in style.items() if "lora_te" not in k}, kohya), adapter_name="style")
            for module, key in ((pipe.text_encoder, "lora_te1_text_model_"), (pipe.text_encoder_2, "lora_te3_")):
                layer = clip if module is pipe.text_encoder else t5
                change = style[key + layer.replace(".", "_") + ".lora_up.weight"].float() @ style[key + layer.replace(".", "_") + ".lora_down.weight"].float()
                module.get_submodule(layer).weight.data += scales["style"] * 4 / 2 * change
        if "form" in scales:
            pipe.load_lora_weights(transformer_only(form, None), adapter_name="form")
            for module, key, layer in ((pipe.text_encoder, "text_encoder.text_model.", clip2), (pipe.text_encoder_2, "text_encoder_2.", t5_2)):
                change = form[f"{key}{layer}.lora_B.weight"].float() @ form[f"{key}{layer}.lora_A.weight"].float()
                module.get_submodule(layer).weight.data += scales["form"] * change
        pipe.transformer.float()
        if scales:
            pipe.set_adapters(list(scales), list(scales.values()))
        return pipe(**run, latents=noise.clone(), output_type="latent").images

    wanted = {"none": {}, "style": {"style": 1.0}, "form": {"form": 0.75}, "both": {"style": 0.5, "form": -1.0}}
    for name, scales in wanted.items():
        out[name] = drawn(scales)
        print(f"{name}: changes the latents by {((out[name] - out['none']).norm() / out['none'].norm()).item():.3f}")
    save_file(out, HERE / "latents.safetensors", metadata={"facts": json.dumps({**run, "scales": wanted})})


make_velocities()
make_latents()
