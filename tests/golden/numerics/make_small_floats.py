"""Writes <format>.bin for the small floats: what ml_dtypes (and torch, where it has the type) decodes and encodes.

Needs numpy, ml_dtypes 0.6.0 and, for the cross-check of the 8-bit types, torch 2.13.0. Layout of a file, little-endian:
u32 number of codes, that many f32 values, u32 number of inputs, that many f32, one code byte for each.
Inputs are every midpoint of neighbouring values, its two neighbours among the floats, and random floats, all inside the
finite range: beyond it libraries differ (saturation or NaN) and the tests state what Quaver does.
"""
import struct
from pathlib import Path

import ml_dtypes
import numpy as np

FORMATS = {
    "e2m1": (ml_dtypes.float4_e2m1fn, 4), "e2m3": (ml_dtypes.float6_e2m3fn, 6), "e3m2": (ml_dtypes.float6_e3m2fn, 6),
    "e4m3fn": (ml_dtypes.float8_e4m3fn, 8), "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8),
    "e5m2": (ml_dtypes.float8_e5m2, 8), "e8m0": (ml_dtypes.float8_e8m0fnu, 8),
}
TORCH = {"e4m3fn": "float8_e4m3fn", "e4m3fnuz": "float8_e4m3fnuz", "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu"}


def inputs_for(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    finite = np.unique(values[np.isfinite(values)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    near = np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])
    span = rng.uniform(-1, 1, 600) * finite[-1]
    small = np.exp2(rng.uniform(-30, 0, 400)) * rng.choice([-1, 1], 400) * finite[-1]
    return np.concatenate([finite, near, span, small, [0.0, -0.0]]).astype(np.float32)


def main() -> None:
    rng = np.random.default_rng(20250701)
    for name, (dtype, bits) in FORMATS.items():
        codes = np.arange(1 << bits, dtype=np.uint8)
        values = codes.view(dtype).astype(np.float32)
        inputs = np.empty(0, np.float32) if name == "e8m0" else inputs_for(values, rng)
        encoded = inputs.astype(dtype).view(np.uint8)
        if name in TORCH:
            check_against_torch(TORCH[name], codes, values, inputs, encoded)
        blob = struct.pack("<I", len(values)) + values.astype("<f4").tobytes()
        blob += struct.pack("<I", len(inputs)) + inputs.astype("<f4").tobytes() + encoded.tobytes()
        Path(__file__).with_name(f"{name}.bin").write_bytes(blob)


def check_against_torch(dtype: str, codes, values, inputs, encoded) -> None:
    try:
        import torch
    except ImportError:
        print(f"torch is not here: {dtype} not cross-checked")
        return
    kind = getattr(torch, dtype)
    np.testing.assert_array_equal(torch.from_numpy(codes).view(kind).float().numpy(), values)
    if len(inputs):
        np.testing.assert_array_equal(torch.from_numpy(inputs).to(kind).view(torch.uint8).numpy(), encoded)


if __name__ == "__main__":
    main()
