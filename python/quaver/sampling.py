"""What a request may ask for beside its prompt: OmniDiffusionSamplingParams and SamplingParams, by the incumbents' names."""
from __future__ import annotations

import copy
import dataclasses
import difflib
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, Optional, TypeVar, Union

import torch

_INT_BITS = {"int": 64, "int32": 32}
_Params = TypeVar("_Params", bound="ParamsBase")


def unknown_name(what: str, name: str, known: Iterable[str]) -> TypeError:
    """For a name that is not there: says which ones come near."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return TypeError(f"{what} has no {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))


def checked(name: str, value: Any, kind: str) -> Any:
    """`value` as an int, float, str or bool, whichever `kind` says; TypeError when it is none."""
    if kind == "bool" and isinstance(value, bool) or kind == "str" and isinstance(value, str):
        return value
    if kind in _INT_BITS and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        most = 2 ** (_INT_BITS[kind] - 1) - 1
        if not -most - 1 <= value <= most:
            raise ValueError(f"{name} is {value}, expected at most {most}")
        return int(value)
    if kind == "float" and isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"{name} is {value!r}, expected {kind}")


class ParamsBase:
    """Of dataclasses whose fields users fill in, by name or in a dict."""
    @classmethod
    def of(cls: type[_Params], given: Any) -> _Params:
        """From an object of the class, a dict of its fields, or None."""
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise TypeError(f"parameters are {type(given).__name__}, expected {cls.__name__} or a dict of its fields")
        names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in given:
            if name not in names:
                raise unknown_name(cls.__name__, name, names)
        return cls(**given)

    def clone(self: _Params) -> _Params:
        return copy.copy(self)

    def check(self, kinds: Mapping[str, str], others: Iterable[str] = ()) -> None:
        """`kinds`: the fields that are heeded and what each is; `others` are checked elsewhere. All else stays at its default."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if value is default or field.name in others:
                continue
            if field.name in kinds:
                if value is not None:
                    checked(field.name, value, kinds[field.name])
            elif not (isinstance(value, (int, float, str, dict)) and value == default):
                raise NotImplementedError(f"{field.name} = {value!r}: {type(self).__name__}.{field.name} is not supported yet")


_PICTURE_FIELDS = {"height": "int", "width": "int", "num_inference_steps": "int", "guidance_scale": "float", "true_cfg_scale": "float",
                   "strength": "float", "seed": "int", "num_outputs_per_prompt": "int", "max_sequence_length": "int",
                   "lora_scale": "float", "save_output": "bool"}


@dataclasses.dataclass
class OmniDiffusionSamplingParams(ParamsBase):
    """None takes the model's default. What this version does not know yet is refused unless it has its default."""
    height: Optional[int] = None  # pixels; honoured exactly, or the request fails with the nearest legal sizes
    width: Optional[int] = None
    fps: Optional[float] = None
    frame_rate: Optional[float] = None
    num_frames: int = 1
    resolution: int = 640
    layers: int = 4
    num_inference_steps: Optional[int] = None
    guidance_scale: Optional[float] = None
    guidance_scale_2: Optional[float] = None
    true_cfg_scale: Optional[float] = None
    boundary_ratio: Optional[float] = None
    strength: Optional[float] = None
    guidance_rescale: float = 0.0
    eta: float = 0.0
    cfg_normalize: bool = False
    do_classifier_free_guidance: bool = False
    sigmas: Optional[list[float]] = None
    timesteps: Optional[list[float]] = None
    seed: Optional[int] = None  # of the first picture, the next has the next; None: drawn, and told in each picture's .info
    generator: Optional[torch.Generator] = None  # a fresh one: its seed counts
    generator_device: Optional[str] = None
    num_outputs_per_prompt: int = 1
    max_sequence_length: Optional[int] = None
    output_type: Optional[str] = None  # None or "pil"
    quality: Optional[str] = None
    latents: Any = None
    audio_latents: Any = None
    image_latent: Any = None
    decode_timestep: Any = None
    decode_noise_scale: Any = None
    use_en_prompt: bool = False
    prompt_template: Any = None
    extra_args: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra_step_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    lora_request: Any = None  # an adapter of Omni(lora_modules=...): its name, or an object or a dict with lora_name (or name)
    lora_scale: float = 1.0  # of that one
    return_trajectory_latents: bool = False
    return_trajectory_decoded: bool = False
    return_frames: bool = False
    save_output: bool = True  # nothing is written to disk in either case
    enable_frame_interpolation: bool = False
    frame_interpolation_exp: int = 1
    frame_interpolation_scale: float = 1.0
    frame_interpolation_model_path: Optional[str] = None
    past_key_values: Any = None
    kv_metadata: Any = None
    need_kv_receive: bool = True
    VSA_sparsity: float = 0.0
    profile: bool = False
    num_profiled_timesteps: int = 8
    debug: bool = False

    def validate(self) -> None:
        """TypeError for a value of a wrong type, NotImplementedError for what is not supported. Ranges are the model's to check."""
        self.check(_PICTURE_FIELDS, others=("generator", "output_type", "lora_request"))
        self.adapter()
        if self.output_type not in (None, "pil"):
            raise NotImplementedError(f"output_type is {self.output_type!r}; only 'pil' is supported")
        self.chosen_seed()

    def adapter(self) -> Optional[tuple[str, str]]:
        """Name and path that lora_request gives; either may be empty, not both."""
        asked = self.lora_request
        if asked is None:
            if self.lora_scale != 1.0:
                raise ValueError("lora_scale needs lora_request")
            return None
        if isinstance(asked, str):
            return asked, ""
        value = asked.get if isinstance(asked, Mapping) else lambda name: getattr(asked, name, None)
        name, path = (next((v for v in map(value, names) if v is not None), "") for names in (("lora_name", "name"), ("lora_path", "path")))
        if not name and not path:
            raise TypeError(f"lora_request is {asked!r}, expected a name, or an object or a dict with lora_name")
        return checked("lora_request.lora_name", name, "str"), checked("lora_request.lora_path", path, "str")

    def chosen_seed(self) -> Optional[int]:
        """That of `seed` or of the generator, which must be fresh: a seed says all about it then, and pictures can be made again."""
        if self.generator is None:
            return self.seed
        seed = int(self.generator.initial_seed())
        if not torch.equal(self.generator.get_state(), torch.Generator(self.generator.device).manual_seed(seed).get_state()):
            raise NotImplementedError("generator has been drawn from already; give a fresh one, or a seed")
        if self.seed is not None and self.seed != seed:
            raise ValueError(f"seed is {self.seed}, but generator has {seed}")
        return seed


# By the engine's own names, which are these.
TEXT_FIELDS = {"temperature": "float", "top_p": "float", "top_k": "int32", "min_p": "float", "repetition_penalty": "float",
               "frequency_penalty": "float", "presence_penalty": "float", "min_tokens": "int32", "include_stop_str_in_output": "bool",
               "ignore_eos": "bool", "logprobs": "int32", "prompt_logprobs": "int32", "skip_special_tokens": "bool"}


@dataclasses.dataclass
class SamplingParams(ParamsBase):
    """vLLM's names and defaults."""
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0  # 0: always the most likely token
    top_p: float = 1.0
    top_k: int = 0  # 0 or -1: all
    min_p: float = 0.0
    seed: Optional[int] = None
    stop: Union[None, str, list[str]] = None
    stop_token_ids: Optional[list[int]] = None
    bad_words: Optional[list[str]] = None
    ignore_eos: bool = False
    max_tokens: Optional[int] = 16  # None: as many as the context holds
    min_tokens: int = 0
    logprobs: Optional[int] = None  # alternatives per token; -1: all
    prompt_logprobs: Optional[int] = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    truncate_prompt_tokens: Optional[int] = None
    logit_bias: Optional[dict[int, float]] = None
    allowed_token_ids: Optional[list[int]] = None
    structured_outputs: Any = None
    extra_args: Optional[dict[str, Any]] = None

    def validate(self) -> None:
        """As OmniDiffusionSamplingParams.validate."""
        self.check({**TEXT_FIELDS, "n": "int", "seed": "int", "max_tokens": "int32"},
                   others=("stop", "stop_token_ids", "logit_bias", "allowed_token_ids"))
        if self.n < 1:
            raise ValueError(f"n is {self.n}, expected 1 or more")
        for word in self.stop_strings():
            checked("stop", word, "str")
        for name in ("stop_token_ids", "allowed_token_ids"):
            for token in getattr(self, name) or ():
                checked(name, token, "int32")
        for token, bias in (self.logit_bias or {}).items():
            checked("logit_bias", token, "int32")
            checked("logit_bias", bias, "float")

    def stop_strings(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
