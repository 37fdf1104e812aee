"""A tiny random FLUX transformer as one GGUF file under its makers' names, and what diffusers computes with it in float32.

    python make_flux_gguf.py        (diffusers 0.42.1, gguf 0.19, torch 2.13 CPU)

flux_gguf/ holds config.json and the file, whose tensors are in blocks of several types, written by the gguf package; flux_gguf.safetensors
the inputs and the velocity of FluxTransformer2DModel.from_single_file under GGUFQuantizationConfig, as make_transformers.py's.
Two things of diffusers are replaced: its converter of names knows FLUX.1's own width alone, and it computes what codes stand for in half
precision, which costs 1e-3; here the gguf package does, in float32.
"""
import inspect
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from diffusers import FluxTransformer2DModel, GGUFQuantizationConfig
from diffusers.loaders import single_file_model, single_file_utils
from diffusers.quantizers.gguf import utils as gguf_utils
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "flux_gguf"
ROWS, COLS, TEXT, BATCH, WIDTH = 3, 5, 7, 2, 32
CONFIG = dict(patch_size=1, in_channels=16, attention_head_dim=WIDTH, num_attention_heads=1, joint_attention_dim=32, axes_dims_rope=(8, 12, 12),
              num_layers=1, num_single_layers=1, pooled_projection_dim=32, guidance_embeds=True)
TYPES = (Type.Q4_0, Type.Q8_0, Type.Q5_1, Type.Q4_1, Type.Q5_0)
# rows, cols of every matrix, by the makers' names.
STREAM = {"mod.lin": (6, 1), "attn.qkv": (3, 1), "attn.proj": (1, 1), "mlp.0": (4, 1), "mlp.2": (1, 4)}
MATRICES = {"img_in": (WIDTH, 16), "txt_in": (WIDTH, 32), "vector_in.in_layer": (WIDTH, 32), "vector_in.out_layer": (WIDTH, WIDTH),
            **{f"{n}.in_layer": (WIDTH, 256) for n in ("time_in", "guidance_in")},
            **{f"{n}.out_layer": (WIDTH, WIDTH) for n in ("time_in", "guidance_in")},
            **{f"double_blocks.0.{s}_{n}": (r * WIDTH, c * WIDTH) for s in ("img", "txt") for n, (r, c) in STREAM.items()},
            "single_blocks.0.modulation.lin": (3 * WIDTH, WIDTH), "single_blocks.0.linear1": (7 * WIDTH, WIDTH),
            "single_blocks.0.linear2": (WIDTH, 5 * WIDTH), "final_layer.adaLN_modulation.1": (2 * WIDTH, WIDTH),
            "final_layer.linear": (16, WIDTH)}
NORMS = [f"double_blocks.0.{s}_attn.norm.{n}_norm.scale" for s in ("img", "txt") for n in ("query", "key")] + \
        [f"single_blocks.0.norm.{n}_norm.scale" for n in ("query", "key")]


def write_gguf(path):
    random = np.random.default_rng(45)
    writer = gguf.GGUFWriter(path, "flux")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for number, (name, (rows, cols)) in enumerate(MATRICES.items()):
        values = (random.standard_normal((rows, cols)) * 0.9 / cols ** 0.5).astype(np.float32)
        kind = Type.F16 if cols % 32 else TYPES[number % len(TYPES)]
        writer.add_tensor(name + ".weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
        writer.add_tensor(name + ".bias", (random.standard_normal(rows) * 0.1).astype(np.float32))
    for name in NORMS:
        writer.add_tensor(name, (1 + 0.2 * random.standard_normal(WIDTH)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def exact_values(tensor):
    if not hasattr(tensor, "quant_type"):
        return tensor
    return torch.from_numpy(gguf.quants.dequantize(tensor.as_tensor().numpy().view(np.uint8), tensor.quant_type))


def fit_converter():
    name = "convert_flux_transformer_checkpoint_to_diffusers"
    source = inspect.getsource(getattr(single_file_utils, name))
    assert source.count("inner_dim = 3072") == 1
    exec(source.replace("inner_dim = 3072", f"inner_dim = {WIDTH}"), single_file_utils.__dict__)
    single_file_model.SINGLE_FILE_LOADABLE_CLASSES["FluxTransformer2DModel"]["checkpoint_mapping_fn"] = getattr(single_file_utils, name)


@torch.no_grad()
def main():
    fit_converter()
    gguf_utils.dequantize_gguf_tensor = exact_values
    FOLDER.mkdir(exist_ok=True)
    FluxTransformer2DModel(**CONFIG).save_config(FOLDER)
    path = FOLDER / "flux-tiny-mixed.gguf"
    write_gguf(path)
    model = FluxTransformer2DModel.from_single_file(str(path), config=str(FOLDER), torch_dtype=torch.float32,
                                                    quantization_config=GGUFQuantizationConfig(compute_dtype=torch.float32)).eval()
    generator = torch.Generator().manual_seed(145)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    inputs = {"latents": draw(BATCH, ROWS * COLS, 16), "text": draw(BATCH, TEXT, 32), "sigma": torch.tensor([0.8125, 0.25]),
              "pooled": draw(BATCH, 32), "guidance": torch.tensor([3.5, 1.25])}
    image_ids = torch.zeros(ROWS, COLS, 3)
    image_ids[..., 1] += torch.arange(ROWS)[:, None]
    image_ids[..., 2] += torch.arange(COLS)[None, :]
    velocity = model(hidden_states=inputs["latents"], encoder_hidden_states=inputs["text"], pooled_projections=inputs["pooled"],
                     timestep=inputs["sigma"], guidance=inputs["guidance"], txt_ids=torch.zeros(TEXT, 3), img_ids=image_ids.reshape(-1, 3),
                     return_dict=False)[0]
    save_file({**inputs, "velocity": velocity.contiguous()}, HERE / "flux_gguf.safetensors",
              metadata={"grid": json.dumps([ROWS, COLS])})
    print(path.stat().st_size, velocity.std())


main()
