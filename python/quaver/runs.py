"""One request on its way: what goes to the engine, and its output as the events come."""
from __future__ import annotations

import copy
import json
import logging
import math
from typing import Any, Optional

import PIL.Image

from . import _quaver
from .outputs import CompletionOutput, Logprob, OmniRequestOutput
from .pictures import mask_of, picture_of
from .prompts import Prompt
from .sampling import TEXT_FIELDS, OmniDiffusionSamplingParams, SamplingParams

_log = logging.getLogger("quaver")


class Run:
    """`submit`, then `take` each event until `finished`. What goes wrong ends this request and no other."""
    def __init__(self, prompt: Prompt, request_id: str, makes: str) -> None:
        self.prompt = prompt
        self.id = request_id
        self.output = OmniRequestOutput(request_id=request_id, prompt=prompt.given, final_output_type=makes)

    @property
    def finished(self) -> bool:
        return self.output.finished

    def fail(self, error: Exception) -> None:
        """What is no QuaverError is a file or a value that the caller can correct."""
        wrong_input = not isinstance(error, _quaver.QuaverError)
        self.output.error = str(error)
        self.output.error_status_code = 400 if wrong_input else error.status_code  # type: ignore[attr-defined]
        self.output.error_type = "Bad Request" if wrong_input else error.error_type  # type: ignore[attr-defined]
        self.output.finished = True
        _log.warning("request %s: %s", self.id, error)

    def aborted(self) -> None:
        self.output.error, self.output.error_status_code, self.output.error_type = "the request was aborted", 499, "Aborted"
        self.output.finished = True


class ImageRun(Run):
    def __init__(self, engine: _quaver.ImageEngine, prompt: Prompt, params: OmniDiffusionSamplingParams, request_id: str) -> None:
        super().__init__(prompt, request_id, "image")
        self._engine = engine
        self._params = params
        self._pictures: dict[int, PIL.Image.Image] = {}
        self._step = 0
        self._steps = params.num_inference_steps or engine.default_steps

    def submit(self, box: _quaver.ImageMailbox) -> None:
        try:
            self._engine.submit(self._request(), box)
        except (_quaver.QuaverError, OSError, ValueError) as error:
            self.fail(error)

    def abort(self) -> None:
        self._engine.abort(self.id)

    def take(self, event: _quaver.ImageEvent) -> None:
        if event.kind == "progress":
            self._step, self._steps = event.step, event.steps
        elif event.kind == "image":
            self._add_picture(event)
        elif event.kind == "done":
            self._finish(event)
        elif event.kind == "failed":
            self.fail(event.error or _quaver.QuaverError("the engine failed without saying why"))
        elif event.kind == "aborted":
            self.aborted()

    def work(self) -> tuple[int, int]:
        """Steps done and steps in all."""
        total = self._params.num_outputs_per_prompt * self._steps
        return (total if self.finished else min(total, len(self._pictures) * self._steps + self._step)), total

    def _request(self) -> _quaver.ImageRequest:
        params, request = self._params, _quaver.ImageRequest()
        request.id = self.id
        request.prompt = self.prompt.text or ""
        request.negative_prompt = self.prompt.negative
        request.count = params.num_outputs_per_prompt
        request.width, request.height = params.width, params.height
        request.steps, request.text_tokens = params.num_inference_steps, params.max_sequence_length
        request.guidance_scale, request.true_cfg_scale = params.guidance_scale, params.true_cfg_scale
        request.strength = params.strength
        seed = params.chosen_seed()
        if seed is not None:
            request.set_seed(seed)
        adapter = params.adapter()
        if adapter is not None:
            request.set_adapter(*adapter, params.lora_scale)
        if self.prompt.image is not None:
            request.set_source(picture_of(self.prompt.image, "image"))
        if self.prompt.mask is not None:
            request.set_mask(mask_of(self.prompt.mask, "mask_image"))
        return request

    def _add_picture(self, event: _quaver.ImageEvent) -> None:
        picture = event.image
        assert picture is not None
        image = PIL.Image.frombytes("RGB", (picture.width, picture.height), picture.rgb)
        image.info["seed"] = event.seed
        self._pictures[event.index] = image
        self._step = 0

    def _finish(self, done: _quaver.ImageEvent) -> None:
        output = self.output
        output.images = [self._pictures[index] for index in sorted(self._pictures)]
        output.stage_durations = dict(done.stage_s)
        output.peak_memory_mb = done.peak_reserved_bytes / 2**20
        output.metrics = {"guidance_scale": done.guidance_scale, "num_inference_steps": self._steps,
                          "seeds": [image.info["seed"] for image in output.images], "prompt_tokens": done.prompt_tokens,
                          "peak_allocated_mb": done.peak_allocated_bytes / 2**20}
        if done.notes:
            output.metrics["notes"] = list(done.notes)
        for note in done.notes:
            _log.warning("request %s: %s", self.id, note)
        output.finished = True


class TextRun(Run):
    """`n` answers are `n` requests of the engine, which computes their common prompt once."""
    def __init__(self, engine: _quaver.TextEngine, prompt: Prompt, params: Optional[SamplingParams], request_id: str) -> None:
        super().__init__(prompt, request_id, "text")
        self._engine = engine
        self._params = params or default_params(engine)
        self._answers = {f"{request_id}-{index}": CompletionOutput(index) for index in range(self._params.n)}
        self.output.outputs = list(self._answers.values())

    def submit(self, box: _quaver.TextMailbox) -> None:
        try:
            ids = self.prompt.token_ids
            self.output.prompt_token_ids = self._engine.encode(self.prompt.text or "") if ids is None else ids
            for request_id in self._answers:
                self._engine.submit(self._request(request_id), box)
        except (_quaver.QuaverError, ValueError) as error:
            self.abort()
            self.fail(error)

    def abort(self) -> None:
        for request_id in self._answers:
            self._engine.abort(request_id)

    def take(self, event: _quaver.TextEvent) -> None:
        if self.finished:
            return
        if event.error is not None:
            self.abort()
            return self.fail(event.error)
        answer = self._answers[event.request_id]
        answer.text += event.text
        answer.token_ids += event.tokens
        if self._params.logprobs is not None:
            answer.logprobs = (answer.logprobs or []) + [self._place(place) for place in event.logprobs]
        if event.prompt_logprobs:
            self.output.prompt_logprobs = [self._place(place) or None for place in event.prompt_logprobs]
        if event.finish_reason:
            answer.finish_reason = event.finish_reason
            answer.stop_reason = event.stop_text or event.stop_token
            self.output.metrics = {"prompt_tokens": len(self.output.prompt_token_ids or ()), "cached_tokens": event.cached_tokens,
                                   "completion_tokens": sum(len(a.token_ids) for a in self.output.outputs)}
        self.output.finished = all(a.finished() for a in self.output.outputs)

    def work(self) -> tuple[int, int]:
        """Answers done and answers in all."""
        return sum(self.finished or a.finished() for a in self.output.outputs), self._params.n

    def snapshot(self) -> OmniRequestOutput:
        """The output so far, which later events leave as it is."""
        output = copy.copy(self.output)
        output.outputs = [copy.copy(answer) for answer in output.outputs]
        for answer in output.outputs:
            answer.token_ids = list(answer.token_ids)
        return output

    def _request(self, request_id: str) -> _quaver.TextRequest:
        params, request = self._params, _quaver.TextRequest()
        request.id = request_id
        request.prompt = self.output.prompt_token_ids or []
        for name in TEXT_FIELDS:
            setattr(request.sampling, name, getattr(params, name))
        room = max(1, self._engine.max_model_len - len(request.prompt))
        request.sampling.max_tokens = room if params.max_tokens is None else params.max_tokens
        if params.seed is not None:
            request.sampling.seed = params.seed + self._answers[request_id].index
        request.sampling.stop = params.stop_strings()
        request.sampling.stop_token_ids = list(params.stop_token_ids or ())
        request.sampling.allowed_token_ids = list(params.allowed_token_ids or ())
        request.sampling.logit_bias = list((params.logit_bias or {}).items())
        return request

    def _place(self, place: list[_quaver.TokenLogprob]) -> dict[int, Logprob]:
        return {entry.token: Logprob(entry.logprob, entry.rank, self._engine.decode([entry.token])) for entry in place}


def default_params(engine: _quaver.TextEngine) -> SamplingParams:
    """What holds when nobody says: what the checkpoint's generation_config.json asks for."""
    given: dict[str, Any] = json.loads(engine.generation_defaults)
    params = SamplingParams()
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
        if isinstance(given.get(name), (int, float)) and math.isfinite(given[name]):
            setattr(params, name, given[name])
    return params
