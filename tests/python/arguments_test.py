"""Arguments that are misspelt, of a wrong type, or not supported yet: named before anything is done."""
import PIL.Image
import pytest

from conftest import PROMPT, SHAPES
from quaver import Omni, OmniDiffusionSamplingParams, SamplingParams


@pytest.mark.parametrize("options, error, words", [
    ({"vae_use_tilling": True}, TypeError, "'vae_use_tilling'; did you mean vae_use_tiling"),
    ({"zebra": 1}, TypeError, "Omni has no 'zebra'$"),
    ({"vae_use_tiling": 1}, TypeError, "vae_use_tiling is 1, expected bool"),
    ({"max_num_seqs": "4"}, TypeError, "max_num_seqs is '4', expected int"),
    ({"max_num_seqs": 2**70}, ValueError, "max_num_seqs is 1180591620717411303424"),
    ({"max_model_len": 100}, ValueError, "max_model_len is for models of text"),
    ({"diffusion_batch_size": 2, "max_num_seqs": 3}, ValueError, "diffusion_batch_size is 2, but max_num_seqs is 3"),
    ({"boundary_ratio": 0.9}, NotImplementedError, "boundary_ratio = 0.9"),
    ({"cache_backend": "mag_cache"}, NotImplementedError, "cache_backend is 'mag_cache'; this version has tea_cache"),
    ({"cache_backend": "tea_cache", "cache_config": {"warm": 1}}, NotImplementedError, "'warm'; this version knows 'rel_l1_thresh'"),
    ({"cache_config": {}}, ValueError, "needs cache_backend"),
    ({"offload": 1}, TypeError, "offload is 1, expected bool"),
    ({"memory_limit": "10MiB", "enable_cpu_offload": True, "enable_layerwise_offload": False}, RuntimeError, "on cpu .weights.*--memory-limit allows 10.0 MiB"),
    ({"output_modalities": ["text"]}, ValueError, "this model makes image"),
    ({"lora_scale": 0.5}, ValueError, "lora_scale needs lora_path"),
    ({"lora_modules": ["a"]}, TypeError, r"lora_modules is \['a'\], expected a dict"),
])
def test_keywords_of_the_model(options, error, words):
    with pytest.raises(error, match=words):
        Omni(SHAPES, **options)


def test_offload_by_any_name_has_no_effect_on_the_cpu(capfd):
    with Omni(SHAPES, enable_cpu_offload=True, enable_layerwise_offload=False):
        assert "--offload has no effect" in capfd.readouterr().err


def test_keywords_without_effect_are_told(caplog):
    with Omni(SHAPES, dtype="torch.float32", enforce_eager=True, vae_use_slicing=True, deploy_config=None, request_batch_max_wait_ms=0):
        assert "enforce_eager has no effect" in caplog.text and "vae_use_slicing has no effect" in caplog.text


@pytest.mark.parametrize("fields, error, words", [
    ({"num_inference_step": 2}, TypeError, "did you mean num_inference_steps"),
    ({"num_inference_steps": 2.5}, TypeError, "num_inference_steps is 2.5, expected int"),
    ({"guidance_scale": "3"}, TypeError, "guidance_scale is '3', expected float"),
    ({"num_frames": 5}, NotImplementedError, "num_frames = 5"),
    ({"sigmas": [1.0, 0.5]}, NotImplementedError, "sigmas"),
    ({"extra_args": {"a": 1}}, NotImplementedError, "extra_args"),
    ({"output_type": "latent"}, NotImplementedError, "output_type is 'latent'"),
    ({"seed": 2**64}, ValueError, "seed is 18446744073709551616"),
    ({"lora_scale": 0.5}, ValueError, "lora_scale needs lora_request"),
    ({"lora_request": 5}, TypeError, "lora_request is 5, expected a name"),
])
def test_fields_of_sampling_parameters(shapes, fields, error, words):
    with pytest.raises(error, match=words):
        shapes.generate(PROMPT, fields)
    if fields.keys() <= vars(OmniDiffusionSamplingParams()).keys():
        with pytest.raises(error, match=words):
            shapes.generate(PROMPT, OmniDiffusionSamplingParams(**fields))


@pytest.mark.parametrize("prompt, error, words", [
    (3, TypeError, "'int' object"),
    ([3], TypeError, "a prompt is int"),
    ({"promt": "x"}, TypeError, "did you mean prompt"),
    ({"prompt": 3}, TypeError, "prompt is 3, expected str"),
    ({"prompt": "x", "prompt_embeds": [1]}, NotImplementedError, "prompt_embeds"),
    ({"prompt_token_ids": [1]}, NotImplementedError, "models of text"),
    ({"prompt": "x", "modalities": ["audio"]}, ValueError, "this model makes image"),
    ({"prompt": "x", "multi_modal_data": {"imag": 1}}, TypeError, "did you mean image"),
    ({"prompt": "x", "multi_modal_data": {"video": 1}}, NotImplementedError, "'video'"),
    ({"prompt": "x", "multi_modal_data": {"image": 3}}, TypeError, "image is int, expected a PIL image"),
    ({"prompt": "x", "multi_modal_data": {"image": [PIL.Image.new("L", (1, 1))] * 2}}, NotImplementedError, "2 pictures"),
    ({"prompt": "x", "multi_modal_data": {"image": "a", "img2img": "b"}}, ValueError, "mean the same"),
])
def test_prompts(shapes, prompt, error, words):
    with pytest.raises(error, match=words):
        shapes.generate(prompt)


def test_parameters_of_another_kind_or_number(shapes):
    with pytest.raises(TypeError, match="SamplingParams, expected OmniDiffusionSamplingParams"):
        shapes.generate(PROMPT, SamplingParams())
    with pytest.raises(ValueError, match="has 2 entries, expected 1"):
        shapes.generate([PROMPT] * 2, [OmniDiffusionSamplingParams()] * 2)
    assert shapes.generate([]) == []
