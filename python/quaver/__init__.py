"""Quantized models of pictures and text in this process: Omni, AsyncOmni, and what goes in and comes out."""
import torch

_AGAIN = f"; torch {torch.__version__} is installed: install quaver again (docs/python.md)"
try:
    from . import _quaver  # after torch, whose libraries it needs
except ImportError as error:
    raise ImportError(f"quaver's extension does not load ({error}); perhaps it was built for another torch{_AGAIN}") from error
if _quaver.TORCH_VERSION.split(".")[:2] != torch.__version__.split(".")[:2]:
    raise ImportError(f"quaver was built for torch {_quaver.TORCH_VERSION}{_AGAIN}")

from ._quaver import QuaverError
from .async_omni import AsyncOmni
from .omni import Omni
from .outputs import CompletionOutput, Logprob, OmniRequestOutput
from .parallel import DiffusionParallelConfig
from .sampling import OmniDiffusionSamplingParams, SamplingParams

__version__ = _quaver.__version__
__all__ = ["AsyncOmni", "CompletionOutput", "DiffusionParallelConfig", "Logprob", "Omni", "OmniDiffusionSamplingParams",
           "OmniRequestOutput", "QuaverError", "SamplingParams"]
