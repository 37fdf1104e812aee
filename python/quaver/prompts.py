"""Prompts as users write them: text, or a dict of what goes with it."""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

from .pictures import check_picture
from .sampling import checked, unknown_name

_NOT_YET = ("mm_processor_kwargs", "prompt_embeds", "negative_prompt_embeds", "additional_information")
_KNOWN = ("prompt", "negative_prompt", "modalities", "multi_modal_data", "prompt_token_ids", "sampling_params", *_NOT_YET)
_MEDIA_NOT_YET = ("video", "audio", "reference_image")
_MEDIA = ("image", "img2img", "mask_image", *_MEDIA_NOT_YET)


@dataclasses.dataclass
class Prompt:
    given: Any
    text: Optional[str] = None
    negative: str = ""
    token_ids: Optional[list[int]] = None
    image: Any = None
    mask: Any = None
    sampling: Any = None  # parameters of this prompt alone


def read_prompt(given: Any, makes: str) -> Prompt:
    """`makes` is image or text. TypeError and NotImplementedError name the entry at fault."""
    if isinstance(given, str):
        return Prompt(given, text=given)
    if not isinstance(given, Mapping):
        raise TypeError(f"a prompt is {type(given).__name__}, expected str or dict")
    for name in given:
        if name not in _KNOWN:
            raise unknown_name("a prompt", name, _KNOWN)
    for name in _NOT_YET:
        if given.get(name) is not None and not (isinstance(given[name], Mapping) and not given[name]):
            raise NotImplementedError(f"a prompt's {name!r} is not supported yet")
    if any(word != makes for word in given.get("modalities") or ()):
        raise ValueError(f"modalities is {given['modalities']!r}, but this model makes {makes}")
    prompt = Prompt(given, sampling=given.get("sampling_params"))
    return _picture_prompt(prompt, given) if makes == "image" else _text_prompt(prompt, given)


def _text_of(given: Mapping[str, Any], name: str) -> Optional[str]:
    value = given.get(name)
    return None if value is None else str(checked(name, value, "str"))


def _picture_prompt(prompt: Prompt, given: Mapping[str, Any]) -> Prompt:
    if given.get("prompt_token_ids") is not None:
        raise NotImplementedError("prompt_token_ids is for models of text: text encoders have tokenizers of their own")
    prompt.text = _text_of(given, "prompt") or ""
    prompt.negative = _text_of(given, "negative_prompt") or ""
    media = given.get("multi_modal_data") or {}
    for name in media:
        if name not in _MEDIA:
            raise unknown_name("multi_modal_data", name, _MEDIA)
    for name in _MEDIA_NOT_YET:
        if media.get(name) is not None:
            raise NotImplementedError(f"multi_modal_data {name!r} is not supported yet")
    sources = [name for name in ("image", "img2img") if media.get(name) is not None]
    if len(sources) == 2:
        raise ValueError("multi_modal_data has 'image' and 'img2img', which mean the same here; give one")
    if sources:
        prompt.image = check_picture(media[sources[0]], sources[0])
    if media.get("mask_image") is not None:
        prompt.mask = check_picture(media["mask_image"], "mask_image")
    return prompt


def _text_prompt(prompt: Prompt, given: Mapping[str, Any]) -> Prompt:
    for name in ("negative_prompt", "multi_modal_data"):
        if given.get(name):
            raise NotImplementedError(f"a prompt's {name!r} is for models of pictures")
    prompt.text = _text_of(given, "prompt")
    if given.get("prompt_token_ids") is not None:
        prompt.token_ids = [checked("prompt_token_ids", token, "int32") for token in given["prompt_token_ids"]]
    if prompt.text is None and prompt.token_ids is None:
        raise ValueError("a prompt has neither 'prompt' nor 'prompt_token_ids'")
    return prompt
