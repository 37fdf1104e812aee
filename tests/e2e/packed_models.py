"""Checkpoints that no quantizer wrote: packed by the format rules bit by bit, with the values they mean in double precision."""
import json
import shutil
from dataclasses import dataclass

import torch
from safetensors.torch import load_file, save_file

AWQ_SLOT = [0, 4, 1, 5, 2, 6, 3, 7]  # where column n % 8 lies in its word


@dataclass
class Packed:
    """How one layer is stored. zero_offset: what is subtracted from a zero point before it is stored."""
    bits: int = 4
    group: int = 128
    sym: bool = True
    layout: str = "gptq"
    zero_offset: int = 1


def words(values, bits):
    """[n, k] small integers -> [n, k * bits / 32] int32, low bits first, across word borders."""
    flat = (values.unsqueeze(-1) >> torch.arange(bits)) & 1
    flat = flat.flatten(1)
    flat = torch.nn.functional.pad(flat, (0, -flat.shape[1] % 32)).unflatten(1, (-1, 32))
    return (flat << torch.arange(32)).sum(-1).to(torch.int64).to(torch.int32)


def interleaved(values):
    slots = torch.empty_like(values).unflatten(1, (-1, 8))
    slots[:, :, AWQ_SLOT] = values.unflatten(1, (-1, 8))
    return words(slots.flatten(1), 4)


def pack_layer(name, out, width, how, seed):
    """Tensors of a random layer and its weight [out, width] in float64."""
    draw = torch.Generator().manual_seed(seed)
    groups = -(-width // how.group)
    codes = torch.randint(0, 2**how.bits, (out, width), generator=draw)
    zeros = torch.randint(1, 2**how.bits, (groups, out), generator=draw)
    if how.sym:
        zeros = torch.full((groups, out), 2**(how.bits - 1))
    scales = (torch.rand(groups, out, generator=draw) * 0.01 + 0.001).half()
    at = torch.arange(width) // how.group
    dense = (codes - zeros[at].T).double() * scales[at].T.double()
    if how.layout == "awq":
        tensors = {"qweight": interleaved(codes.T.contiguous()), "qzeros": interleaved(zeros)}
    else:
        tensors = {"qweight": words(codes, how.bits).T.contiguous(), "qzeros": words(zeros - how.zero_offset, how.bits)}
    return {f"{name}.{part}": t for part, t in {**tensors, "scales": scales}.items()}, dense


def is_linear(name):
    return name.endswith("_proj.weight")


def write_packed(base, folder, quantization, plan, extra=None):
    """Copies the plain folder `base`; layers for which plan(name) gives a Packed are stored so. Returns every linear's weight."""
    shutil.copytree(base, folder)
    tensors, linears = load_file(folder / "model.safetensors"), {}
    for seed, key in enumerate(sorted(k for k in tensors if is_linear(k))):
        name, weight = key.removesuffix(".weight"), tensors[key]
        how = plan(name)
        linears[name] = weight.double()
        if how:
            del tensors[key]
            packed, linears[name] = pack_layer(name, *weight.shape, how, seed)
            tensors.update(packed)
    save_file({**tensors, **(extra or {})}, folder / "model.safetensors", {"format": "pt"})
    edit_config(folder, quantization_config=quantization)
    return linears


def edit_config(folder, **values):
    """Sets keys of config.json; None removes one."""
    config = json.loads((folder / "config.json").read_text())
    config.update(values)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def gptq(**more):
    return {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False, **more}


def awq(**more):
    return {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm", **more}


def auto_round(**more):
    return {"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4, "group_size": 128, "sym": True,
            "data_type": "int", **more}
