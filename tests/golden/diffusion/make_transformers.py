"""Tiny random diffusion transformers, stored in bfloat16, and what diffusers computes with them in float32.

    python make_transformers.py        (diffusers 0.42.1, torch 2.13 CPU)

Each NAME/ is a component folder; NAME.safetensors holds the inputs (latents, text, pooled, sigma, guidance; the picture's
grid in the metadata), the picture's and the text's stream after each block (image.I, text.I) and the velocity.
"""
import json
from pathlib import Path

import torch
from diffusers import FluxTransformer2DModel, OvisImageTransformer2DModel
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
ROWS, COLS, TEXT, BATCH = 3, 5, 7, 2
SHARED = dict(patch_size=1, in_channels=16, attention_head_dim=16, num_attention_heads=3,
              joint_attention_dim=24, axes_dims_rope=(4, 4, 8))


def fill(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        is_norm = p.dim() == 1 and name.endswith("weight")
        value = 1 + 0.2 * noise if is_norm else noise * (0.1 if p.dim() == 1 else 0.9 / p.shape[1] ** 0.5)
        p.data = value.to(torch.bfloat16).float()


def positions(variant):
    image = torch.zeros(ROWS, COLS, 3)
    image[..., 1] += torch.arange(ROWS)[:, None]
    image[..., 2] += torch.arange(COLS)[None, :]
    text = torch.zeros(TEXT, 3)
    if variant == "ovis":
        text[:, 1:] += torch.arange(TEXT)[:, None]
    return text, image.reshape(-1, 3)


@torch.no_grad()
def make(name, model, variant, seed):
    fill(model, seed)
    model.eval()
    model.to(torch.bfloat16).save_pretrained(HERE / name)
    model.float()
    generator = torch.Generator().manual_seed(100 + seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    inputs = {"latents": draw(BATCH, ROWS * COLS, 16), "text": draw(BATCH, TEXT, 24), "sigma": torch.tensor([0.8125, 0.25])}
    more = {}
    if variant == "flux":
        inputs["pooled"] = draw(BATCH, 20)
        more["pooled_projections"] = inputs["pooled"]
        if model.config.guidance_embeds:
            inputs["guidance"] = torch.tensor([3.5, 1.25])
            more["guidance"] = inputs["guidance"]
    streams = {}

    def record(index):
        def hook(_, args, out):
            streams[f"text.{index}"], streams[f"image.{index}"] = out
        return hook

    for index, block in enumerate([*model.transformer_blocks, *model.single_transformer_blocks]):
        block.register_forward_hook(record(index))
    text_ids, image_ids = positions(variant)
    velocity = model(hidden_states=inputs["latents"], encoder_hidden_states=inputs["text"], timestep=inputs["sigma"],
                     txt_ids=text_ids, img_ids=image_ids, return_dict=False, **more)[0]
    tensors = {k: v.contiguous().clone() for k, v in {**inputs, **streams, "velocity": velocity}.items()}
    save_file(tensors, HERE / f"{name}.safetensors", metadata={"grid": json.dumps([ROWS, COLS])})


make("flux_guided", FluxTransformer2DModel(**SHARED, num_layers=2, num_single_layers=2, pooled_projection_dim=20, guidance_embeds=True), "flux", 1)
make("flux_unguided", FluxTransformer2DModel(**SHARED, num_layers=1, num_single_layers=1, pooled_projection_dim=20, guidance_embeds=False), "flux", 2)
make("ovis_image", OvisImageTransformer2DModel(**SHARED, num_layers=1, num_single_layers=1, out_channels=16), "ovis", 3)
