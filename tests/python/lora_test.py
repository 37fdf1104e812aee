"""LoRA files from Python: those that always run, and those that a request picks by name."""
import asyncio
import types

import pytest

from conftest import PROMPT, ROOT, SHAPES
from quaver import AsyncOmni, Omni, OmniDiffusionSamplingParams, QuaverError

LORAS = ROOT / "tests" / "golden" / "lora"
STYLE, FORM = LORAS / "shapes-style.safetensors", LORAS / "shapes-form.safetensors"
FAST = {"height": 64, "width": 64, "num_inference_steps": 2, "seed": 7, "max_sequence_length": 32}


def drawn(omni, **fields):
    output, = omni.generate(PROMPT, OmniDiffusionSamplingParams(**FAST, **fields), use_tqdm=False)
    return output.images[0].tobytes() if output.error is None else output.error


@pytest.fixture(scope="module")
def styled():
    with Omni(SHAPES, lora_path=STYLE, lora_scale=0.5, lora_modules={"form": FORM}) as omni:
        yield omni


def test_one_that_always_runs_and_one_that_is_picked(shapes, styled):
    plain, style, form = drawn(shapes), drawn(styled), drawn(styled, lora_request="form")
    assert len({plain, style, form}) == 3
    assert drawn(styled, lora_request={"name": "shapes-style"}, lora_scale=0.5) == style
    assert drawn(styled, lora_request={"lora_name": "form"}, lora_scale=0) == plain
    as_in_vllm = types.SimpleNamespace(lora_name="form", lora_int_id=1, lora_path=str(FORM))
    assert drawn(styled, lora_request=as_in_vllm) == form


def test_others_end_their_request(shapes, styled):
    assert "names 'glow', expected one of: shapes-style, form" in drawn(styled, lora_request="glow")
    assert "none was loaded" in drawn(shapes, lora_request="form")


def test_files_that_are_none_are_named():
    with pytest.raises(QuaverError, match="none.safetensors: does not exist"):
        Omni(SHAPES, lora_path="none.safetensors")


def test_from_asyncio():
    async def main():
        async with AsyncOmni(model=SHAPES, lora_modules={"form": FORM}) as omni:
            pictures = []
            for asked in (None, "form"):
                async for output in omni.generate(PROMPT, FAST, lora_request=asked):
                    pictures.append(output.images[0].tobytes())
            assert len(pictures) == 2 and pictures[0] != pictures[1]
            with pytest.raises(ValueError, match="two places"):
                async for output in omni.generate(PROMPT, {**FAST, "lora_request": "form"}, lora_request="form"):
                    pass

    asyncio.run(main())
