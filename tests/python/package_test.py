"""The package as a whole: README's snippet runs, types hold, the stub says what the extension has, an exit is clean."""
import os
import pathlib
import re
import subprocess
import sys

import PIL.Image

import quaver
from conftest import ROOT, SHAPES

ENVIRONMENT = dict(os.environ, PYTHONPATH=str(pathlib.Path(quaver.__file__).parent.parent.absolute()))


def run(*command, cwd=ROOT):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def snippet(page):
    """The page's Python blocks as one program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    return "".join(blocks)


def test_readme(tmp_path):
    os.symlink(ROOT / "models", tmp_path / "models")
    program = tmp_path / "program.py"
    program.write_text(snippet("README.md"))
    run(sys.executable, "-m", "mypy", program)
    run(sys.executable, program, cwd=tmp_path)
    assert PIL.Image.open(tmp_path / "cat.png").size == (64, 64)


def test_types_hold():
    run(sys.executable, "-m", "mypy", "python/quaver")


def test_the_stub_says_what_the_extension_has():
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--concise", "--mypy-config-file", "pyproject.toml", "quaver._quaver"],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    # pybind11's classes have a metaclass, and a constructor even where nobody may call it.
    faults = [line for line in done.stdout.splitlines()
              if not re.search(r"metaclass differs|__init__ is inconsistent, stub does not have \*args", line)]
    assert not faults and done.stderr == ""


def test_an_exit_in_the_middle_is_clean():
    run(sys.executable, "-c", "from quaver import Omni, OmniDiffusionSamplingParams\n"
        f"outputs = Omni({str(SHAPES)!r}).generate(['a star'] * 2, {{'num_inference_steps': 1000}}, py_generator=True)\n"
        "import threading; threading.Thread(target=next, args=(outputs,), daemon=True).start()\n"
        "import time; time.sleep(0.5)")
