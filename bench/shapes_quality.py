#!/usr/bin/env python3
"""Do quantized folders of the shapes model still draw what was asked for, and the same pictures?

    bench/shapes_quality.py build/release/bin/quaver models/shapes-flux W4 W2 ... [--prompts 200] [--steps 20] [--json FILE]

The first folder is the reference. Each is served in turn (`quaver serve`), draws the prompts and seeds that
models/training/eval_flux.py scores diffusers with, and is scored by the same checker: shares of attributes and of whole
prompts right, and the mean PSNR of its pictures to the reference's. Needs numpy and Pillow.
"""
import argparse
import base64
import concurrent.futures
import io
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models" / "training"))
from check_scene import check, summarise
from shapes_world import sample_scene

SEED = 2026  # of eval_flux.py


def fresh_prompts(count):
    rng = np.random.default_rng(SEED)
    return [sample_scene(rng)[0] for _ in range(count)]


class Served:
    """A server of one folder, for the length of a `with`."""

    def __init__(self, program, folder, flags):
        self.command = [program, "serve", str(folder), "--port", "0", "--disable-access-log", *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("ready: "):
                self.url = line.split()[1].rstrip(",")
                return self
        raise SystemExit(f"{' '.join(self.command)} ended before it was ready")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def draw(self, prompt, seed, steps):
        body = {"prompt": prompt, "seed": seed, "num_inference_steps": steps, "guidance_scale": 3.5, "size": "128x128"}
        request = urllib.request.Request(self.url + "/images/generations", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            picture = base64.b64decode(json.load(answer)["data"][0]["b64_json"])
        return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def psnr(a, b):
    error = np.mean((a.astype(np.float64) - b) ** 2)
    return 10 * np.log10(255 ** 2 / max(error, 1e-3))  # equal pictures count as 78 dB


def run(arguments, folder, prompts):
    began = time.time()
    with Served(arguments.program, folder, arguments.serve_flags) as server, \
            concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
        images = list(pool.map(lambda i: server.draw(prompts[i], SEED + i, arguments.steps), range(len(prompts))))
    attributes, whole, parts = summarise([check(p, i) for p, i in zip(prompts, images)])
    return images, {"folder": str(folder), "attributes_right": round(attributes, 4), "prompts_right": round(whole, 4),
                    "by_attribute": parts, "seconds": round(time.time() - began, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve-flags", nargs=argparse.REMAINDER, default=[], help="last: flags for quaver serve")
    arguments = parser.parse_args()
    prompts, reference, rows = fresh_prompts(arguments.prompts), None, []
    for folder in arguments.folders:
        images, row = run(arguments, folder, prompts)
        reference = reference or images
        differences = [psnr(a, b) for a, b in zip(images, reference)]
        row["psnr_mean"], row["psnr_median"] = round(float(np.mean(differences)), 2), round(float(np.median(differences)), 2)
        rows.append(row)
        print(json.dumps(row), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
