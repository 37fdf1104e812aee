"""Writes every_dtype.safetensors with the safetensors library: one tensor per dtype that it can serialize.

Run with the repository's .venv (safetensors 0.8.0). Bytes of tensor t are (17 * t + 31 * i) mod 256.
"""
import ctypes
from pathlib import Path

from safetensors import TensorSpec, serialize_file

DTYPES = {  # name the serializer wants: (name in the file, bytes of one element)
    "bool": ("BOOL", 1), "uint8": ("U8", 1), "int8": ("I8", 1), "uint16": ("U16", 2), "int16": ("I16", 2),
    "uint32": ("U32", 4), "int32": ("I32", 4), "uint64": ("U64", 8), "int64": ("I64", 8),
    "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "float8_e8m0fnu": ("F8_E8M0", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1), "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1),
    "float16": ("F16", 2), "bfloat16": ("BF16", 2), "float32": ("F32", 4), "float64": ("F64", 8),
    "complex64": ("C64", 8), "float4_e2m1fn_x2": ("F4", 0.5),
}


def main() -> None:
    alive = []

    def spec(dtype: str, shape: list[int], data: bytes) -> TensorSpec:
        alive.append(ctypes.create_string_buffer(data, max(len(data), 1)))
        return TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(alive[-1]), data_len=len(data))

    tensors = {}
    for t, (dtype, (name, size)) in enumerate(DTYPES.items()):
        data = bytes((17 * t + 31 * i) % 256 for i in range(int(6 * size)))
        shape = [3, 1] if name == "F4" else [2, 3]  # the library doubles the last extent of F4
        tensors[f"t.{name}"] = spec(dtype, shape, data)
    tensors["scalar"] = spec("float32", [], bytes(4))
    tensors["empty"] = spec("float16", [0, 4], b"")
    tensors["na\u00efve \"quoted\"\n\u2028"] = spec("uint8", [1], b"x")
    serialize_file(tensors, Path(__file__).with_name("every_dtype.safetensors"), {"format": "pt"})


if __name__ == "__main__":
    main()
