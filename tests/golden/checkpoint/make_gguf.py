"""Writes the GGUF golden data with the gguf package 0.19.0 in the repository's .venv:

gguf_blocks.safetensors  <type>.blocks (U8) and <type>.values (F32): random blocks and what gguf.quants.dequantize makes
                         of them. With --fixtures FOLDER also <type>.real.*: the first blocks of real files' tensors.
every_value.gguf         every metadata type, arrays of each, and tensors of several types.
"""
import argparse
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value
from safetensors.torch import load_file, save_file

TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K,
         Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4]
HERE = Path(__file__).parent


def random_blocks(kind: Type, rng: np.random.Generator) -> np.ndarray:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    return rng.integers(0, 256, (max(16, 1024 // elements) if elements < 256 else 12, size), dtype=np.uint8)


def dequantize(kind: Type, blocks: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks, kind).astype(np.float32).reshape(-1)


def write_blocks(fixtures: Path | None) -> None:
    rng = np.random.default_rng(17)
    target = HERE / "gguf_blocks.safetensors"
    tensors = {name: t for name, t in load_file(target).items() if ".real." in name} if target.exists() else {}
    for kind in TYPES:
        blocks = random_blocks(kind, rng)
        if kind == Type.MXFP4:
            blocks[:5, 0] = [0, 1, 2, 254, 255]  # subnormal scales, the largest, and what e8m0 calls NaN
        tensors[f"{kind.name.lower()}.blocks"] = torch.from_numpy(blocks.reshape(-1).copy())
        tensors[f"{kind.name.lower()}.values"] = torch.from_numpy(dequantize(kind, blocks))
    for path in sorted(fixtures.glob("gguf-*/*.gguf")) if fixtures else []:
        add_real_blocks(path, tensors)
    save_file(tensors, target)


def add_real_blocks(path: Path, tensors: dict) -> None:
    for tensor in gguf.GGUFReader(path).tensors:
        kind = tensor.tensor_type
        if f"{kind.name.lower()}.real.blocks" in tensors or kind not in TYPES[3:]:
            continue
        blocks = np.asarray(tensor.data).view(np.uint8).reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])[:8]
        tensors[f"{kind.name.lower()}.real.blocks"] = torch.from_numpy(blocks.reshape(-1).copy())
        tensors[f"{kind.name.lower()}.real.values"] = torch.from_numpy(dequantize(kind, blocks))


def write_every_value() -> None:
    writer = gguf.GGUFWriter(HERE / "every_value.gguf", "llama")
    scalars = {Value.UINT8: 200, Value.INT8: -100, Value.UINT16: 60000, Value.INT16: -30000, Value.UINT32: 4000000000,
               Value.INT32: -2000000000, Value.FLOAT32: 0.1, Value.UINT64: 2**63 + 5, Value.INT64: -(2**62),
               Value.FLOAT64: 0.1, Value.BOOL: True, Value.STRING: "na\u00efve"}
    for kind, value in scalars.items():
        writer.add_key_value(f"t.{kind.name.lower()}", value, kind)
    for kind, value in scalars.items():
        if kind not in (Value.STRING, Value.BOOL):
            writer.add_key_value(f"a.{kind.name.lower()}", [0, 1, value], Value.ARRAY, kind)
    writer.add_key_value("a.bool", [True, False, True], Value.ARRAY, Value.BOOL)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "\u0120a", "", "\u2581\u00e9"])
    rng = np.random.default_rng(3)
    writer.add_tensor("matrix", rng.standard_normal((3, 64)).astype(np.float32))
    writer.add_tensor("half", rng.standard_normal((2, 3, 5)).astype(np.float16))
    writer.add_tensor("q8", gguf.quants.quantize(rng.standard_normal((2, 64)).astype(np.float32), Type.Q8_0),
                      raw_dtype=Type.Q8_0)
    writer.add_tensor("vector", np.arange(7, dtype=np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixtures", type=Path)
    write_blocks(parser.parse_args().fixtures)
    write_every_value()
