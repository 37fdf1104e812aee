#!/usr/bin/env python3
"""Packs a folder of large test or model data into an archive, which the repository holds in its place.

    tools/pack_data.py tests/fixtures/checkpoints tests/fixtures/checkpoints.tar.xz
    tools/pack_data.py models/shapes-flux/transformer models/shapes-flux-transformer.tar.xz

The build unpacks archives (cmake/data.cmake). Equal contents give equal bytes: names are sorted, times and owners left out.
"""
import lzma
import sys
import tarfile
from pathlib import Path


def plain(entry):
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def pack(folder, archive):
    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as out, tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if "__pycache__" not in path.parts:
                tar.add(path, arcname=str(Path(folder.name) / path.relative_to(folder)), recursive=False, filter=plain)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")


pack(Path(sys.argv[1]), Path(sys.argv[2]))
