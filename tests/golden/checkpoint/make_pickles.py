"""Writes PyTorch's own checkpoint files, and the same tensors as safetensors, for tests/checkpoint/pickle_file_test.cc.

usage: python make_pickles.py    (writes pickled/ beside this file; made with torch 2.13.0 and safetensors 0.8.0)
"""
import collections
import pathlib

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parent / "pickled"

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu,
          torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32,
          torch.uint16, torch.uint8, torch.bool, torch.complex64]


def bits(dtype):
    size = torch.empty(0, dtype=dtype).element_size()
    count = 6 * size
    raw = torch.arange(1, count + 1, dtype=torch.uint8)
    return (raw % 2 if dtype == torch.bool else raw).view(dtype).reshape(2, 3)


def write(name, tensors, **options):
    torch.save(tensors, OUT / f"{name}.bin", **options)
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, OUT / f"{name}.safetensors")


def main():
    OUT.mkdir(exist_ok=True)
    write("every_dtype", {str(d).removeprefix("torch."): bits(d) for d in DTYPES})
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    tied = torch.arange(4, dtype=torch.bfloat16)
    write("views", {"whole": base, "transposed": base.permute(2, 0, 1), "row": base[1], "column": base[:, 1:, 2], "every_other": base[..., ::2],
                    "one": base[1, 2, 3], "none": base[:0], "scalar": torch.tensor(1.5), "tied.a": tied, "tied.b": tied})
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2), torch.nn.BatchNorm1d(2))
    write("state_dict", model.state_dict())
    write("parameters", collections.OrderedDict(model.state_dict(keep_vars=True)))
    for protocol in (3, 4, 5):
        write(f"protocol_{protocol}", {"weight": base, "half": tied}, pickle_protocol=protocol)


if __name__ == "__main__":
    main()
