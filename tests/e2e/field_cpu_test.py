"""Reported faults of older processors, named by their ids: docs/field-cases.md. For x86-64 alone."""
import json
import pathlib
import re
import subprocess

import pytest
from packed_models import Packed, gptq, write_packed

ISA_FILE = re.compile(r"_(avx2|avx512|avx512bf16|vnni)\.cc$")
ISA_FLAG = re.compile(r"-m(avx|fma|f16c|bmi|amx|arch=)")
ASK = ["--prompt", "hello", "--max-tokens", 6, "--temperature", 0, "--dtype", "float32"]


@pytest.fixture(scope="session")
def packed(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "m"
    write_packed(tiny_model, folder, gptq(), lambda name: Packed())
    return folder


@pytest.fixture(scope="session")
def compiled(binary):
    """Sources of this project as the build compiled them: (source, command, object)."""
    build = binary.parent.parent
    rows = json.loads((build / "compile_commands.json").read_text())
    return [(row["file"], row["command"], build / re.search(r" -o (\S+)", row["command"])[1]) for row in rows if "/src/" in row["file"]]


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512", "vnni"])
def test_f138_every_level_of_instructions_gives_the_same_answer(run, packed, level):
    usual = run("generate", packed, *ASK).stdout
    assert run("generate", packed, *ASK, env={"QUAVER_CPU": level}).stdout == usual


def test_f138_an_unknown_level_is_refused_in_one_line(run, packed):
    failed = run("generate", packed, *ASK, env={"QUAVER_CPU": "mmx"}, status=2)
    assert failed.stderr.splitlines()[-1] == "quaver: QUAVER_CPU must be scalar, avx2, avx512 or vnni, got 'mmx'"


@pytest.mark.parametrize("processor,level", [("qemu64", "scalar"), ("Nehalem", "scalar"), ("Haswell-noTSX", "avx2")])
def test_f138_an_emulated_older_processor_runs_everything(binary, run, packed, processor, level):
    def emulated(*arguments):
        done = subprocess.run(["qemu-x86_64-static", "-cpu", processor, str(binary), *map(str, arguments)],
                              capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout
    assert emulated("--version").splitlines()[-1] == f"processor: {level}"
    assert emulated("--help") == run("--help").stdout
    assert emulated("generate", packed, *ASK) == run("generate", packed, *ASK).stdout


def test_f138_only_files_for_an_instruction_set_are_compiled_for_one(compiled):
    flagged = {pathlib.Path(file).name for file, command, _ in compiled if ISA_FLAG.search(command)}
    assert flagged == {pathlib.Path(file).name for file, _, _ in compiled if ISA_FILE.search(file)} != set()


def test_f138_no_shared_function_comes_from_such_a_file(compiled):
    """The linker keeps any one of several equal inline functions: one of AVX-512 would then run everywhere."""
    objects = [output for file, _, output in compiled if ISA_FILE.search(file) and output.exists()]
    assert objects
    symbols = subprocess.run(["nm", "-A", "--defined-only", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    assert [line for line in symbols.splitlines() if re.search(r" [uVvWw] ", line)] == []
