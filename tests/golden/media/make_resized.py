"""Writes resized.safetensors with Pillow 12.0: picture [72, 96, 3] and small [13, 11, 3] of noise and edges, and
SOURCE.FILTER.WIDTHxHEIGHT, each resized by Image.resize, in colour and, with .gray behind, the luma alone. Pillow 13
takes rows first where height shrinks much more than width, which rounds otherwise."""
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

FILTERS = ("nearest", "box", "bilinear", "bicubic", "lanczos")
SIZES = {"picture": [(130, 3), (37, 29), (48, 36), (96, 7), (9, 72), (1, 1), (31, 80)],
         "small": [(11, 13), (33, 26), (64, 5), (5, 64), (12, 14), (1, 13), (29, 31)]}


def noisy(width: int, height: int) -> np.ndarray:
    pixels = np.random.default_rng(7).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[height // 3:, : width // 2] //= 128  # edges of full contrast, where overshoot is cut off
    pixels[height // 2:, width // 2:] = np.where(pixels[height // 2:, width // 2:] > 127, 255, 0)
    return pixels


def main() -> None:
    tensors = {}
    for source, (width, height) in {"picture": (96, 72), "small": (11, 13)}.items():
        pixels = noisy(width, height)
        image = Image.fromarray(pixels)
        tensors[source], tensors[f"{source}.gray"] = pixels, np.array(image.convert("L"))
        for name in FILTERS:
            for size in SIZES[source]:
                key, kind = f"{source}.{name}.{size[0]}x{size[1]}", Image.Resampling[name.upper()]
                tensors[key] = np.array(image.resize(size, kind))
                tensors[f"{key}.gray"] = np.array(image.convert("L").resize(size, kind))
    save_file(tensors, Path(__file__).with_name("resized.safetensors"))


if __name__ == "__main__":
    main()
