"""One picture from several processes, as torchrun starts them."""
import os
import subprocess
import sys

import numpy
import PIL.Image
import pytest

from conftest import PROMPT, SHAPES
from quaver import DiffusionParallelConfig, Omni

PROGRAM = """
import sys
from quaver import DiffusionParallelConfig, Omni
with Omni(sys.argv[1], parallel_config=DiffusionParallelConfig(tensor_parallel_size=2)) as omni:
    print("rank 0 alone")
    bad, good = omni.generate([" ", sys.argv[2]], {"height": 64, "width": 64, "num_inference_steps": 2, "seed": 7}, use_tqdm=False)
good.images[0].save(sys.argv[3])
"""


def test_the_same_picture(shapes, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program, SHAPES,
                           PROMPT, tmp_path / "cat.png"], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rank 0 alone") == 1
    alone, = shapes.generate(PROMPT, {"height": 64, "width": 64, "num_inference_steps": 2, "seed": 7}, use_tqdm=False)
    shared = numpy.asarray(PIL.Image.open(tmp_path / "cat.png"), int)
    # Sums run in another order, which may turn a value by one.
    assert abs(shared - numpy.asarray(alone.images[0], int)).max() <= 1


@pytest.mark.parametrize("config, error, words", [
    (DiffusionParallelConfig(cfg_parallel_size=2, ulysses_degree=2), NotImplementedError, "4 processes, which torchrun starts"),
    ({"cfg_parallel_size": 3}, ValueError, "cfg_parallel_size is 3, expected 1 to 2"),
    ({"tensor_parallel_size": 0}, ValueError, "tensor_parallel_size is 0"),
    ({"ring_degree": 2}, NotImplementedError, "ring_degree = 2"),
    ({"ulyses_degree": 2}, TypeError, "did you mean ulysses_degree"),
    (2, TypeError, "expected DiffusionParallelConfig or a dict"),
])
def test_sizes(config, error, words):
    with pytest.raises(error, match=words):
        Omni(SHAPES, parallel_config=config)
