"""A loaded model of either kind, and what its classes have in common: opening, closing, reading of arguments."""
from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _quaver
from .options import fill_options
from .parallel import join
from .prompts import Prompt, read_prompt
from .runs import ImageRun, TextRun
from .sampling import OmniDiffusionSamplingParams, SamplingParams

AnyRun = Union[ImageRun, TextRun]
_QUEUE = 1 << 20  # a limit is for servers, whose clients are many


class Model:
    """Base of Omni and AsyncOmni. Closing aborts what runs; it happens by itself at the end of a `with` block and of the process."""
    def __init__(self, model: Union[str, os.PathLike[str]], **options: Any) -> None:
        path = _quaver.resolve_model(os.fspath(model))
        self.model = os.fspath(model)
        self._engine: Union[_quaver.ImageEngine, _quaver.TextEngine] = _open(path, options)
        self._finalizer = weakref.finalize(self, self._engine.close)

    @property
    def makes(self) -> str:
        """image or text"""
        return "image" if isinstance(self._engine, _quaver.ImageEngine) else "text"

    def close(self) -> None:
        self._finalizer()

    shutdown = close

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def _run(self, given: Any, params: Any, request_id: Optional[str] = None) -> AnyRun:
        """Everything but values is checked: what is wrong with a value ends its request, later."""
        if not self._finalizer.alive:
            raise _quaver.QuaverError("this model is closed")
        prompt = read_prompt(given, self.makes)
        params = prompt.sampling if prompt.sampling is not None else _for_one_stage(params)
        request_id = request_id or uuid.uuid4().hex
        if isinstance(self._engine, _quaver.ImageEngine):
            return _image_run(self._engine, prompt, params, request_id)
        text = None if params is None else SamplingParams.of(params)
        if text is not None:
            text.validate()
        return TextRun(self._engine, prompt, text and text.clone(), request_id)

    def _mailbox(self) -> Any:
        return _quaver.ImageMailbox() if self.makes == "image" else _quaver.TextMailbox()


def _image_run(engine: _quaver.ImageEngine, prompt: Prompt, params: Any, request_id: str) -> ImageRun:
    params = OmniDiffusionSamplingParams.of(params)
    params.validate()
    return ImageRun(engine, prompt, params.clone(), request_id)


def with_adapter(params: Any, lora_request: Any) -> OmniDiffusionSamplingParams:
    """A copy of the parameters that has the adapter too."""
    changed = OmniDiffusionSamplingParams.of(_for_one_stage(params)).clone()
    if changed.lora_request is not None:
        raise ValueError("lora_request stands in two places: as an argument and among the parameters")
    changed.lora_request = lora_request
    return changed


def _open(path: str, given: Mapping[str, Any]) -> Union[_quaver.ImageEngine, _quaver.TextEngine]:
    if _quaver.makes_pictures(path):
        return _open_images(path, dict(given))
    if given.get("parallel_config") is not None:
        raise ValueError("parallel_config is for models of pictures, and this one makes text")
    text = _quaver.TextOptions()
    text.model, text.max_queue = path, _QUEUE
    fill_options(text, given, "text")
    return _quaver.TextEngine(text)


def _open_images(path: str, given: dict[str, Any]) -> _quaver.ImageEngine:
    """Of several processes the first gets the engine; the others help it from here, and end when it does."""
    images = _quaver.ImageOptions()
    images.model, images.max_queue = path, _QUEUE
    parallel = given.pop("parallel_config", None)
    fill_options(images, given, "image")
    ranks = join(parallel, images.device)
    if ranks is not None and not ranks.leads:
        ranks.follow(images)
        raise SystemExit(0)
    return _quaver.ImageEngine(images, ranks)


def _for_one_stage(params: Any) -> Any:
    """Parameters come as they are or as a list of one per stage; the models here have one."""
    if not isinstance(params, (list, tuple)):
        return params
    if len(params) != 1:
        raise ValueError(f"sampling_params_list has {len(params)} entries, expected 1: one per stage of the model, for all prompts; "
                         "what is for one prompt alone goes into its dict, as 'sampling_params'")
    return params[0]
