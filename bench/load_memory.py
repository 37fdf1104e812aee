#!/usr/bin/env python3
"""Peak memory while loading synthetic sharded checkpoints, beside what it may be: all tensors and the largest once more.

  bench/load_memory.py [--gib 2] [--binary build/release/bin/quaver]

The program's own memory is measured with a model of half a megabyte and taken off. Writes to the temporary directory.
"""
import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import synthetic_model  # noqa: E402
from peak_memory import peak_bytes  # noqa: E402

COMMANDS = {"inspect": [], "generate": ["--prompt", "a", "--max-tokens", 1, "--max-model-len", 16, "--kv-cache-memory", 1 << 23]}


def measure(binary, stored, folder, size_bytes, experts):
    kind = f"{stored} {'experts' if experts else 'dense'}"
    smallest = folder / f"{kind}-smallest"
    synthetic_model.write(smallest, 0, **synthetic_model.SMALLEST, experts=experts, stored=stored)
    total, largest = synthetic_model.write(folder / kind, size_bytes, experts=experts, width=1024 if experts else 8192,
                                           stored=stored)
    for command, flags in COMMANDS.items():
        base = peak_bytes([binary, command, smallest, *flags])
        peak = peak_bytes([binary, command, folder / kind, *flags])
        print(f"| {kind} | {command} | " + " | ".join(f"{x / 2**20:.0f}" for x in (total, largest, base, peak - base)) +
              f" | {(peak - base) / (total + largest):.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=2, help="size of all tensors")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "quaver")
    a = parser.parse_args()
    print("| model | command | tensors MiB | largest MiB | base MiB | peak - base MiB | of tensors + largest |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for stored, experts in (("int4", 0), ("int4", 8), ("fp8", 0), ("nvfp4", 8)):
            measure(a.binary, stored, pathlib.Path(folder), int(a.gib * 2**30), experts)


if __name__ == "__main__":
    main()
