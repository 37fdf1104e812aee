"""Keyword arguments of Omni: which option of the engine each one is, and what is said about the rest."""
from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any, Optional

import torch

from .sampling import checked, unknown_name

_log = logging.getLogger("quaver")

_TEXT, _IMAGE = ("text",), ("image",)
_BOTH = _TEXT + _IMAGE


@dataclasses.dataclass(frozen=True)
class _Option:
    kind: str
    makes: tuple[str, ...] = _BOTH  # the models that have it
    field: Optional[str] = None  # of the engine's options; None: called as the keyword


_OPTIONS = {
    "device": _Option("str"), "dtype": _Option("str"), "quantization": _Option("str"), "strict_activations": _Option("bool"),
    "max_num_seqs": _Option("int"),
    "memory_limit": _Option("str"), "offload": _Option("bool", _IMAGE),
    "cache": _Option("str", _IMAGE), "vae_use_tiling": _Option("bool", _IMAGE, "vae_tiling"),
    "kv_cache_dtype": _Option("str", _TEXT), "kv_cache_memory": _Option("int", _TEXT), "max_model_len": _Option("int", _TEXT),
    "max_num_batched_tokens": _Option("int", _TEXT), "block_size": _Option("int", _TEXT),
    "enable_prefix_caching": _Option("bool", _TEXT), "enable_chunked_prefill": _Option("bool", _TEXT),
    "tie_embeddings": _Option("bool", _TEXT),
}
# Read into one of the above.
_OFFLOAD = ("enable_cpu_offload", "enable_layerwise_offload")
_SPELLINGS = ("cache_backend", "cache_config", "diffusion_batch_size", "output_modalities", *_OFFLOAD)
_LORA = ("lora_path", "lora_scale", "lora_modules")
_WITHOUT_EFFECT = {
    "stage_init_timeout": "the model loads in this process, however long it takes",
    "init_timeout": "the model loads in this process, however long it takes",
    "log_stats": "outputs carry their own metrics",
    "enforce_eager": "nothing is compiled or captured",
    "vae_use_slicing": "the autoencoder always works on one picture at a time",
}
# Name and the values that ask for nothing.
_NOT_YET: dict[str, tuple[Any, ...]] = {
    "async_chunk": (False,), "deploy_config": (), "stage_overrides": (), "strategy_config": (),
    "quantization_config": (), "step_execution": (False,),
    "request_batch_max_wait_ms": (0,), "boundary_ratio": (), "flow_shift": (), "diffusion_load_format": ("default",),
    "model_class_name": (),
}
# The engine's caches by the incumbents' names, each with the entry of cache_config that is its threshold.
_CACHES = {"tea_cache": ("teacache", "rel_l1_thresh"), "teacache": ("teacache", "rel_l1_thresh"),
           "first-block": ("first-block", "residual_diff_threshold"), "none": ("none", "")}


def fill_options(options: Any, given: Mapping[str, Any], makes: str) -> None:
    """`options` is the engine's. TypeError, ValueError or NotImplementedError name the keyword at fault; None is the default."""
    known = (*_OPTIONS, *_SPELLINGS, *_LORA, *_WITHOUT_EFFECT, *_NOT_YET, "parallel_config")
    for name in given:
        if name not in known:
            raise unknown_name("Omni", name, known)
    rest = {k: v for k, v in given.items() if v is not None}
    _set_adapters(options, {name: rest.pop(name) for name in _LORA if name in rest}, makes)
    for name, value in _respelled(rest, makes).items():
        if name in _OPTIONS:
            option = _OPTIONS[name]
            if makes not in option.makes:
                raise ValueError(f"{name} is for models of {_plural(option.makes[0])}, and this one makes {_plural(makes)}")
            setattr(options, option.field or name, checked(name, value, option.kind))
        elif name in _WITHOUT_EFFECT:
            _log.warning("%s has no effect: %s", name, _WITHOUT_EFFECT[name])
        elif value not in _NOT_YET[name]:
            raise NotImplementedError(f"{name} = {value!r}: {name} is not supported yet")


def _set_adapters(options: Any, given: Mapping[str, Any], makes: str) -> None:
    """LoRA files: one that runs in every picture, and those that requests pick by name."""
    if not given:
        return
    if makes != "image":
        raise ValueError(f"{next(iter(given))} is for models of pictures, and this one makes {_plural(makes)}")
    if "lora_scale" in given and "lora_path" not in given:
        raise ValueError("lora_scale needs lora_path")
    modules = given.get("lora_modules", {})
    if not isinstance(modules, Mapping):
        raise TypeError(f"lora_modules is {modules!r}, expected a dict of names and files")
    options.set_adapters(os.fspath(given.get("lora_path", "")),
                         checked("lora_scale", given["lora_scale"], "float") if "lora_scale" in given else None,
                         {checked("lora_modules", name, "str"): os.fspath(file) for name, file in modules.items()})


def _plural(makes: str) -> str:
    return "pictures" if makes == "image" else "text"


def _respelled(given: dict[str, Any], makes: str) -> dict[str, Any]:
    """The spellings read, and words for torch's own objects."""
    modalities = given.pop("output_modalities", None) or [makes]
    if list(modalities) != [makes]:
        raise ValueError(f"output_modalities is {modalities!r}, and this model makes {makes}")
    if isinstance(given.get("dtype"), (torch.dtype, str)):  # "torch.float32" too
        given["dtype"] = str(given["dtype"]).removeprefix("torch.")
    if isinstance(given.get("device"), torch.device):
        given["device"] = str(given["device"])
    asked = [checked(name, given.pop(name), "bool") for name in _OFFLOAD if name in given]
    if any(asked):  # they are one here
        given["offload"] = True
    batch = given.pop("diffusion_batch_size", None)
    if batch is not None and given.setdefault("max_num_seqs", batch) != batch:
        raise ValueError(f"diffusion_batch_size is {batch}, but max_num_seqs is {given['max_num_seqs']}")
    return _with_cache(given)


def _with_cache(given: dict[str, Any]) -> dict[str, Any]:
    backend, config = given.pop("cache_backend", None), given.pop("cache_config", None)
    if backend is None:
        if config is not None:
            raise ValueError("cache_config needs cache_backend")
        return given
    if backend not in _CACHES:
        raise NotImplementedError(f"cache_backend is {backend!r}; this version has {', '.join(_CACHES)}")
    if "cache" in given:
        raise ValueError("cache and cache_backend are two names of one thing; give one")
    name, threshold = _CACHES[backend]
    rest = dict(config or {})
    given["cache"] = f"{name}:{checked(threshold, rest.pop(threshold), 'float')}" if threshold in rest else name
    if rest:
        raise NotImplementedError(f"cache_config of {backend} has {', '.join(map(repr, rest))}; this version knows "
                                  + (repr(threshold) if threshold else "none"))
    return given
