"""What the tests of the Python package share: the package from the build folder, a model of pictures, one of text."""
import contextlib
import pathlib
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from fetch_smollm2 import fetch  # noqa: E402

from quaver import Omni  # noqa: E402

SHAPES = ROOT / "models" / "shapes-flux"
PROMPT = "a red circle left of a green square on a white background"

# A shell's background jobs ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shapes():
    with Omni(SHAPES, max_num_seqs=2) as omni:
        yield omni


@pytest.fixture(scope="session")
def smollm2():
    """Its path."""
    return fetch()


@pytest.fixture(scope="session")
def writer(smollm2):
    with Omni(smollm2, max_model_len=512) as omni:
        yield omni


class Bars:
    """Stands in for tqdm."""
    def __init__(self):
        self.made = []

    def make(self, total, unit):
        bar = Bar(total, unit)
        self.made.append(bar)
        return bar

    @property
    def shown(self):
        return [(bar.n, bar.total, bar.unit) for bar in self.made]


class Bar(contextlib.nullcontext):
    def __init__(self, total, unit):
        super().__init__(self)
        self.total, self.n, self.unit = total, 0, unit

    def update(self, more):
        self.n += more


@pytest.fixture
def bars():
    return Bars()
