"""AsyncOmni: the same models for programs with an event loop."""
from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Iterable, Optional, Union

from . import _quaver
from .model import AnyRun, Model, with_adapter
from .outputs import OmniRequestOutput
from .runs import TextRun

_NOT_YET = ("encode", "sleep", "wake_up", "add_lora", "remove_lora", "list_loras", "pin_lora", "pause_generation", "resume_generation",
            "start_profile", "stop_profile", "reset_mm_cache", "reset_prefix_cache", "reset_encoder_cache", "collective_rpc")


class AsyncOmni(Model):
    """Takes what Omni takes. Its coroutines belong to one event loop at a time."""
    def __init__(self, model: Union[str, os.PathLike[str]], **options: Any) -> None:
        super().__init__(model, **options)
        self._live: dict[str, AnyRun] = {}

    async def __aenter__(self) -> AsyncOmni:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.close)

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_YET:
            raise AttributeError(f"AsyncOmni.{name} is not supported yet")
        raise AttributeError(f"AsyncOmni has no {name!r}")

    async def generate(self, prompt: Any, sampling_params: Any = None, request_id: str = "", *,
                       sampling_params_list: Optional[Sequence[Any]] = None, output_modalities: Optional[Sequence[str]] = None,
                       lora_request: Any = None, priority: int = 0) -> AsyncGenerator[OmniRequestOutput, None]:
        """Text: an output per step, each with all text so far. Pictures: one output. The last has `finished`.

        Leaving the loop early aborts the request.
        """
        if sampling_params is not None and sampling_params_list is not None:
            raise ValueError("sampling_params and sampling_params_list are two names of one thing; give one")
        if output_modalities is not None and list(output_modalities) != [self.makes]:
            raise ValueError(f"output_modalities is {output_modalities!r}, and this model makes {self.makes}")
        if priority != 0:
            raise NotImplementedError("priority is not supported yet: requests are taken in order of arrival")
        params = sampling_params if sampling_params is not None else sampling_params_list
        if lora_request is not None:
            if self.makes != "image":
                raise NotImplementedError("lora_request is not supported yet for models of text")
            params = with_adapter(params, lora_request)
        run = self._run(prompt, params, request_id)
        if run.id in self._live:
            raise ValueError(f"request_id {run.id!r} is in use")
        self._live[run.id] = run
        box = self._mailbox()
        try:
            run.submit(box)
            async for _ in _news(box, run):
                if isinstance(run, TextRun) and not run.finished:
                    yield run.snapshot()
            yield run.output
        finally:
            del self._live[run.id]
            if not run.finished:
                run.abort()

    async def abort(self, request_id: Union[str, Iterable[str]]) -> None:
        """Ends requests within a step; their generators give what there is. Unknown ids are ignored."""
        for name in [request_id] if isinstance(request_id, str) else request_id:
            if name in self._live:
                self._live[name].abort()

    async def check_health(self) -> None:
        """Raises QuaverError when the engine has stopped or keeps failing."""
        if not self._engine.healthy:
            raise _quaver.QuaverError("the engine has stopped")


async def _news(box: Any, run: AnyRun) -> AsyncGenerator[None, None]:
    """Feeds the run until it is finished; yields after each lot of events."""
    ready, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(box.fileno(), ready.set)
    try:
        while not run.finished:
            await ready.wait()
            ready.clear()
            for event in box.take():
                run.take(event)
            yield
    finally:
        loop.remove_reader(box.fileno())
