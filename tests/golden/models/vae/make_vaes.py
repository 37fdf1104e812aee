"""Tiny random autoencoders, stored in bfloat16, and what diffusers computes with them in float32.

    python make_vaes.py SHAPES_FLUX REFERENCE        (diffusers 0.42.1, torch 2.13 CPU)

Each NAME/ is a component folder. NAME.safetensors holds pixels, the encoder's moments (means, log variances), latents in
the transformer's scale and the picture decoded from them; kl_tiled also has both in tiles of TILE pixels, a quarter of
which overlaps (tiled_moments, tiled_decoded). kl_original has the tensor names of FLUX.1's makers, and diffusers itself
reads it back. trained.safetensors holds one latent and one picture of the demo model's autoencoder SHAPES_FLUX, whose
pipeline wrote REFERENCE (shapes-flux.safetensors: packed latents and the picture in 0..1), and the latent that diffusers
encodes the picture to.
"""
import sys
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent
TILE = 32
DOWN, UP = "DownEncoderBlock2D", "UpDecoderBlock2D"


def vae(channels, seed, latents=4, groups=4, layers=1, sample=TILE, **more):
    levels = len(channels)
    model = AutoencoderKL(block_out_channels=channels, down_block_types=(DOWN,) * levels, up_block_types=(UP,) * levels,
                          latent_channels=latents, norm_num_groups=groups, layers_per_block=layers, sample_size=sample, **more)
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        is_norm = p.dim() == 1 and name.endswith("weight")
        value = 1 + 0.2 * noise if is_norm else noise * (0.1 if p.dim() == 1 else 0.9 / p[0].numel() ** 0.5)
        p.data = value.to(torch.bfloat16).float()
    return model.eval()


def latent_scale(model):
    c = model.config
    if c.latents_mean is None:
        return 1 / c.scaling_factor, c.shift_factor or 0
    shape = (1, -1, 1, 1)
    return torch.tensor(c.latents_std).view(shape), torch.tensor(c.latents_mean).view(shape)


@torch.no_grad()
def expected(model, height, width, seed, tiled=False):
    generator = torch.Generator().manual_seed(seed)
    scale = 2 ** (len(model.config.block_out_channels) - 1)
    pixels = torch.rand(2, 3, height, width, generator=generator) * 2 - 1
    latents = torch.randn(2, model.config.latent_channels, height // scale, width // scale, generator=generator)
    std, mean = latent_scale(model)
    out = {"pixels": pixels, "latents": latents, "moments": model.encode(pixels).latent_dist.parameters,
           "decoded": model.decode(latents * std + mean).sample}
    if tiled:
        model.enable_tiling()
        out["tiled_moments"] = model.encode(pixels).latent_dist.parameters
        out["tiled_decoded"] = model.decode(latents * std + mean).sample
        model.disable_tiling()
    return {k: v.contiguous().clone() for k, v in out.items()}


def make(name, model, height, width, seed, tiled=False):
    save_file(expected(model, height, width, seed, tiled), HERE / f"{name}.safetensors")
    model.to(torch.bfloat16).save_pretrained(HERE / name)


def original_name(name, levels):
    for ours, theirs in (("down_blocks", "down"), ("mid_block.resnets.0", "mid.block_1"), ("mid_block.resnets.1", "mid.block_2"),
                         ("mid_block.attentions.0.group_norm", "mid.attn_1.norm"), ("mid_block.attentions.0.to_q", "mid.attn_1.q"),
                         ("mid_block.attentions.0.to_k", "mid.attn_1.k"), ("mid_block.attentions.0.to_v", "mid.attn_1.v"),
                         ("mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out"), ("resnets", "block"),
                         ("conv_shortcut", "nin_shortcut"), ("downsamplers.0", "downsample"), ("upsamplers.0", "upsample"),
                         ("conv_norm_out", "norm_out")):
        name = name.replace(ours, theirs)
    if ".up_blocks." in name:
        head, rest = name.split(".up_blocks.")
        level, rest = rest.split(".", 1)
        name = f"{head}.up.{levels - 1 - int(level)}.{rest}"
    return name


def make_original(name, model, height, width, seed):
    levels = len(model.config.block_out_channels)
    tensors = {}
    for key, p in model.state_dict().items():
        is_matrix = ".to_" in key and p.dim() == 2
        tensors[original_name(key, levels)] = (p[:, :, None, None] if is_matrix else p).to(torch.bfloat16).contiguous()
    model.save_config(HERE / name)
    file = HERE / name / "ae.safetensors"
    save_file(tensors, file)
    again = AutoencoderKL.from_single_file(str(file), config=str(HERE / name), torch_dtype=torch.float32).eval()
    for key, p in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], p), key
    save_file(expected(again, height, width, seed), HERE / f"{name}.safetensors")


def make_trained(folder, reference):
    tensors = load_file(reference)
    packed = tensors["0.latents_final"]  # [1, rows * cols, (channel, dy, dx)]
    side = int(packed.shape[1] ** 0.5)
    latents = packed.view(1, side, side, 16, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(1, 16, 2 * side, 2 * side)
    picture = tensors["0.image"][None]
    model = AutoencoderKL.from_pretrained(folder, torch_dtype=torch.float32).eval()
    std, mean = latent_scale(model)
    with torch.no_grad():
        decoded = model.decode(latents * std + mean).sample
        encoded = model.encode(picture * 2 - 1).latent_dist.mode()
    assert (picture - (decoded / 2 + 0.5).clamp(0, 1)).abs().max() < 1e-5
    save_file({"latents": latents.contiguous(), "image": picture.contiguous(), "encoded": ((encoded - mean) / std).contiguous()},
              HERE / "trained.safetensors")


if __name__ == "__main__":
    none = dict(use_quant_conv=False, use_post_quant_conv=False)
    make("kl_flux", vae((8, 8, 16, 16), 1, layers=2, scaling_factor=0.3611, shift_factor=0.1159, **none), 40, 24, 11)
    make("kl_quant_convs", vae((8, 16), 2, layers=1, scaling_factor=0.18215), 6, 10, 12)
    make("kl_mean_std", vae((8, 16, 16), 3, layers=3, mid_block_add_attention=False, latents_mean=[0.5, -1.25, 0.125, 2.0],
                            latents_std=[3.0625, 0.5, 1.5, 2.25], **none), 12, 20, 13)
    make("kl_tiled", vae((8, 8, 8), 4, scaling_factor=0.5, shift_factor=-0.25), 80, 52, 14, tiled=True)
    make_original("kl_original", vae((4, 8, 12), 5, layers=2, scaling_factor=0.3611, shift_factor=0.1159, **none), 8, 12, 15)
    make_trained(Path(sys.argv[1]), Path(sys.argv[2]))
