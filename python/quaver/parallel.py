"""One transformer from several processes, which torchrun starts: docs/parallel.md."""
from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional

from . import _quaver
from .sampling import ParamsBase

_SIZES = {"cfg_parallel_size": "int", "tensor_parallel_size": "int", "ulysses_degree": "int"}


@dataclasses.dataclass
class DiffusionParallelConfig(ParamsBase):
    """The three that are heeded multiply to the number of processes."""
    cfg_parallel_size: int = 1  # branches of true guidance: 1 or 2
    tensor_parallel_size: int = 1  # parts of each layer
    ulysses_degree: int = 1  # parts of the tokens
    ring_degree: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    vae_patch_parallel_size: int = 1
    use_hsdp: bool = False

    def world(self) -> int:
        return self.cfg_parallel_size * self.tensor_parallel_size * self.ulysses_degree

    def validate(self) -> None:
        """As OmniDiffusionSamplingParams.validate; ValueError for sizes that are none."""
        self.check(_SIZES)
        for name in _SIZES:
            size, most = getattr(self, name), 2 if name == "cfg_parallel_size" else 1024
            if not 1 <= size <= most:
                raise ValueError(f"{name} is {size}, expected 1 to {most}")


def join(given: Any, device: str) -> Optional[_quaver.Ranks]:
    """This process among the others; None where it is alone."""
    config = DiffusionParallelConfig.of(given)
    config.validate()
    if config.world() == 1:
        return None
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        raise NotImplementedError(f"parallel_config shares the model among {config.world()} processes, which torchrun starts: torchrun "
                                  f"--nproc-per-node {config.world()} PROGRAM; quaver serve starts its own")
    return _quaver.Ranks(config.cfg_parallel_size, config.tensor_parallel_size, config.ulysses_degree, device)
