#!/usr/bin/env python3
"""Checks the rules of docs/architecture.md that a script can check.

Includes point down (tools/layers.txt lists the levels); no torch below nn; no family name outside models/ and
diffusion/families/; no vendor name outside formats/; every source file opens with a comment that says what it is for.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
FIRST_TORCH_LEVEL = 3

# Whole words, in any spelling of case. A name that is also a flag or a format's own file name stands in ALLOWED.
VENDORS = r"gptq|awq|auto_?gptq|auto_?awq|modelopt|quark|torchao|compressed[_-]tensors|bitsandbytes|inc"
FAMILIES = r"llama\d?|smollm\d?|qwen\d?(?:_moe|_omni)?|gemma\d?|deepseek\w*|gpt[_-]oss|flux|ovis|bagel|wan2?|glm[_-]image"


def levels():
    table = {}
    for line in (ROOT / "tools" / "layers.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        head, _, friends = line.partition(":")
        level, folder = head.split()
        table[folder] = (int(level), set(friends.split()))
    return table


def code_lines(path):
    """(number, line without comments and string literals, line) of each line."""
    text = path.read_text()
    bare = re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    return list(zip(range(1, 10**9), bare.splitlines(), text.splitlines()))


def include_faults(path, folder, table):
    level, friends = table[folder]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if not match:
            continue
        target = match.group(1).split("/")[0]
        if target in ("ATen", "c10", "torch", "caffe2") and level < FIRST_TORCH_LEVEL:
            yield number, f"{folder}/ is below nn/ and may not include torch"
        if target in table and target != folder and target not in friends and table[target][0] >= level:
            yield number, f"{folder}/ (level {level}) may not include {target}/ (level {table[target][0]})"


def name_faults(path, folder, name):
    in_families = folder == "models" or name.startswith("diffusion/families/")
    rules = [] if in_families else [(FAMILIES, "a family's name outside models/")]
    if folder != "formats":
        rules.append((VENDORS, "a vendor's name outside formats/"))
    for number, bare, _ in code_lines(path):
        for pattern, fault in rules:
            for match in re.finditer(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", bare, flags=re.I):
                yield number, f"{fault}: {match.group()}"


def opening_fault(path):
    first = path.read_text().split("\n", 1)[0]
    if path.suffix in (".h", ".cuh") and not first.startswith("//"):
        yield 1, "a header opens with a comment that says what it is for"


def main():
    table = levels()
    faults, count = [], 0
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        name = path.relative_to(SOURCE).as_posix()
        folder = name.split("/")[0]
        if folder not in table:
            faults.append(f"src/{name}: folder {folder}/ is not in tools/layers.txt")
            continue
        count += 1
        for check in (include_faults(path, folder, table), name_faults(path, folder, name), opening_fault(path)):
            faults += [f"src/{name}:{number}: {fault}" for number, fault in check]
    print("\n".join(faults) or f"layers and names: {count} files in order")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
