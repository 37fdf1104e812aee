"""LPIPS of the pairs of pictures in this folder, by the lpips package over an AlexNet whose weights a rule makes.

    python make_lpips.py        (lpips 0.1.4, torch 2.13 CPU, Pillow 13)

The package's own network code and metric run; torchvision, which it asks for AlexNet, is replaced by its published list of
layers. The rule, the same in tests/eval/lpips_test.cc: element i of tensor t is uniform in [-1, 1) from a hash of i and t, times
sqrt(6 / inputs of an output) for weights, 0.1 for biases; heads are the hash's fraction itself. Writes lpips.json: of each pair as
it is, and of both sides repeated twice down and three times across.
"""
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

HERE = Path(__file__).resolve().parent
PAIRS = ("noise", "shift", "inverted", "identical")


def fractions(count, tensor):
    x = np.arange(count, dtype=np.uint64) * 2654435761 + 40503 * (tensor + 1) & 0xffffffff
    for shift, factor in ((16, 0x45d9f3b), (16, 0x45d9f3b)):
        x = (x ^ x >> shift) * factor & 0xffffffff
    x ^= x >> 16
    return (x >> 8).astype(np.float32) / np.float32(1 << 24)


class AlexNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(), nn.MaxPool2d(3, 2))


fake = types.ModuleType("torchvision")
fake.models = types.SimpleNamespace(alexnet=lambda pretrained=False: AlexNet())
sys.modules["torchvision"] = fake
import lpips


@torch.no_grad()
def make_model():
    model = lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False)
    for layer, index in enumerate((0, 3, 6, 8, 10)):
        conv = getattr(getattr(model.net, f"slice{layer + 1}"), str(index))
        inputs = conv.weight[0].numel()
        weight = (2 * fractions(conv.weight.numel(), 3 * layer) - 1) * np.float32((6 / inputs) ** 0.5)
        conv.weight.copy_(torch.from_numpy(weight).view_as(conv.weight))
        conv.bias.copy_(torch.from_numpy((2 * fractions(conv.bias.numel(), 3 * layer + 1) - 1) * np.float32(0.1)))
        head = model.lins[layer].model[1].weight
        head.copy_(torch.from_numpy(fractions(head.numel(), 3 * layer + 2)).view_as(head))
    return model


def load(path, tiles):
    values = torch.from_numpy(np.asarray(Image.open(path).convert("RGB")).copy()).float().permute(2, 0, 1)[None]
    return values.repeat(1, 1, *tiles) / 127.5 - 1


@torch.no_grad()
def main():
    model, out = make_model(), {}
    for name in PAIRS:
        for suffix, tiles in (("", (1, 1)), ("_tiled", (2, 3))):
            sides = [load(HERE / f"{name}_{side}.png", tiles) for side in ("reference", "candidate")]
            out[name + suffix] = model(*sides).item()
    (HERE / "lpips.json").write_text(json.dumps(out, indent=1) + "\n")
    print(out)


main()
