"""What a request gives: pictures or text, how they were made, or why there are none."""
from __future__ import annotations

import dataclasses
import io
from typing import Any, Optional

import PIL.Image


@dataclasses.dataclass
class Logprob:
    """Of one token at one place."""
    logprob: float
    rank: Optional[int] = None  # 1 = most likely
    decoded_token: Optional[str] = None


@dataclasses.dataclass
class CompletionOutput:
    """One answer of a model of text."""
    index: int = 0
    text: str = ""
    token_ids: list[int] = dataclasses.field(default_factory=list)
    logprobs: Optional[list[dict[int, Logprob]]] = None  # one per token, by token id
    finish_reason: Optional[str] = None  # stop, length, abort
    stop_reason: Optional[int | str] = None  # the stop string or token that matched
    multimodal_output: dict[str, Any] = dataclasses.field(default_factory=dict)

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclasses.dataclass(repr=False)
class OmniRequestOutput:
    """A request that failed has `error`, `error_status_code` and `error_type` as the server would answer it."""
    request_id: str = ""
    prompt: Any = None
    prompt_token_ids: Optional[list[int]] = None
    prompt_logprobs: Optional[list[Optional[dict[int, Logprob]]]] = None
    outputs: list[CompletionOutput] = dataclasses.field(default_factory=list)
    finished: bool = False
    stage_id: int = 0
    replica_id: int = 0
    final_output_type: str = "text"  # text or image
    images: list[PIL.Image.Image] = dataclasses.field(default_factory=list)  # each with its seed in .info
    latents: Any = None
    trajectory_latents: Any = None
    trajectory_timesteps: Any = None
    trajectory_log_probs: Any = None
    trajectory_decoded: Any = None
    multimodal_output: dict[str, Any] = dataclasses.field(default_factory=dict)
    custom_output: dict[str, Any] = dataclasses.field(default_factory=dict)
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    stage_durations: dict[str, float] = dataclasses.field(default_factory=dict)  # seconds
    peak_memory_mb: float = 0.0
    error: Optional[str] = None
    error_status_code: Optional[int] = None
    error_type: Optional[str] = None

    def __repr__(self) -> str:
        if self.error is not None:
            what = f"error={self.error!r}"
        elif self.final_output_type == "image":
            what = "images=[" + ", ".join(f"{i.width}x{i.height} seed {i.info.get('seed')}" for i in self.images) + "]"
        else:
            what = "text=" + ", ".join(repr(answer.text) for answer in self.outputs)
        return f"OmniRequestOutput(request_id={self.request_id!r}, prompt={self.prompt!r}, {what}, finished={self.finished})"

    def _repr_png_(self) -> Optional[bytes]:
        """What notebooks show: the pictures side by side."""
        if not self.images:
            return None
        sheet = PIL.Image.new("RGB", (sum(i.width for i in self.images), max(i.height for i in self.images)), "white")
        left = 0
        for image in self.images:
            sheet.paste(image, (left, 0))
            left += image.width
        data = io.BytesIO()
        sheet.save(data, "PNG")
        return data.getvalue()
