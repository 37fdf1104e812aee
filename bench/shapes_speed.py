#!/usr/bin/env python3
"""Seconds of a picture of the shapes model on the CPU: quaver beside diffusers, drawing in turn in one run.

    bench/shapes_speed.py [--program build/release/bin/quaver] [--size 128] [--steps 20] [--rounds 6] [--threads 2]

diffusers loads the folder in this process in float32 (its bfloat16 is slower on CPUs without AMX); quaver serves it as it does
by default and with --dtype float32, which keeps every product in float32. The first round is for warming up; medians of the others,
with the fastest and slowest. Needs torch, diffusers, transformers.
"""
import argparse
import json
import os
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "models" / "shapes-flux"
PROMPT, GUIDANCE, TEXT_TOKENS = "a red circle left of a green square on a white background", 3.5, 512


class Diffusers:
    name = "diffusers, float32"

    def __init__(self, threads):
        import torch
        from diffusers import FluxPipeline
        torch.set_num_threads(threads)
        self.torch, self.pipeline = torch, FluxPipeline.from_pretrained(FOLDER, torch_dtype=torch.float32)
        self.pipeline.set_progress_bar_config(disable=True)

    def draw(self, seed, size, steps):
        began = time.perf_counter()
        self.pipeline(PROMPT, width=size, height=size, num_inference_steps=steps, guidance_scale=GUIDANCE,
                      max_sequence_length=TEXT_TOKENS, generator=self.torch.Generator("cpu").manual_seed(seed))
        return time.perf_counter() - began

    def stop(self):
        pass


class Quaver:
    def __init__(self, name, program, threads, *flags):
        self.name = name
        self.process = subprocess.Popen([program, "serve", str(FOLDER), "--port", "0", "--disable-access-log", *flags],
                                        stdout=subprocess.PIPE, text=True, env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
        ready = next((line for line in self.process.stdout if line.startswith("ready: ")), None)
        if ready is None:
            raise SystemExit(f"{name}: ended before it was ready")
        self.url = ready.split()[1].rstrip(",")

    def draw(self, seed, size, steps):
        body = {"prompt": PROMPT, "seed": seed, "num_inference_steps": steps, "guidance_scale": GUIDANCE, "size": f"{size}x{size}",
                "max_sequence_length": TEXT_TOKENS}
        request = urllib.request.Request(self.url + "/images/generations", json.dumps(body).encode(), {"Content-Type": "application/json"})
        began = time.perf_counter()
        urllib.request.urlopen(request, timeout=600).read()
        return time.perf_counter() - began

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "bin" / "quaver"))
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    contestants = [Diffusers(arguments.threads)]
    try:
        contestants.append(Quaver("quaver", arguments.program, arguments.threads))
        contestants.append(Quaver("quaver, --dtype float32", arguments.program, arguments.threads, "--dtype", "float32"))
        runs = {contestant.name: [] for contestant in contestants}
        for turn in range(arguments.rounds + 1):
            for contestant in contestants:
                seconds = contestant.draw(turn, arguments.size, arguments.steps)
                if turn > 0:
                    runs[contestant.name].append(seconds)
    finally:
        for contestant in contestants:
            contestant.stop()
    peer = statistics.median(runs[Diffusers.name])
    print("| | seconds a picture, median (fastest, slowest) | beside diffusers |\n|---|---|---|")
    for name, seconds in runs.items():
        median = statistics.median(seconds)
        print(f"| {name} | {median:.2f} ({min(seconds):.2f}, {max(seconds):.2f}) | {peer / median:.2f}x |")


if __name__ == "__main__":
    main()
