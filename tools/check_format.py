#!/usr/bin/env python3
"""Runs clang-format over every C++ file that git knows or could know; --fix rewrites them."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = (".cc", ".h", ".cu", ".cuh")


def sources():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if name.endswith(SUFFIXES) and (ROOT / name).exists()]


def main():
    clang_format = pathlib.Path(sys.executable).parent / "clang-format"
    mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "--Werror"]
    files = sources()
    result = subprocess.run([clang_format, *mode, *files], cwd=ROOT)
    if result.returncode != 0:
        print("formatting differs; ./dev lint --fix rewrites the files")
    else:
        print(f"formatting: {len(files)} files in order")
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
