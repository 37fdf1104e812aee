"""Folders that `quaver quantize --format llm_compressor` writes, read by Transformers with compressed-tensors."""
import pathlib

import pytest

from agreement import expect_agreement

READER = pathlib.Path(__file__).parent / "compressed_tensors_reader.py"
LAYERS = 28


def quantize(run, model, out, *flags):
    run("quantize", "--model", model, "--output_dir", out, "--format", "llm_compressor", "--iters", 4, "--nsamples", 8, "--seqlen", 64,
        "--batch_size", 4, "--quiet", *flags)


@pytest.mark.parametrize("flags", [
    ["--scheme", "W4A16"],
    ["--scheme", "W4A16", "--asym", "--group_size", 32],
    ["--scheme", "W2A16G64"],
    ["--scheme", "W3A16", "--asym"],
    ["--scheme", "W8A16"],
    ["--scheme", "FPW8A16"],
    ["--scheme", "W4A16", "--layer_config", '{"mlp.down_proj": {"bits": 8}, "layers.1.mlp.up_proj": {"bits": 16}}'],
])
def test_weights_alone(run, serve, tiny_model, tmp_path, flags):
    quantize(run, tiny_model, tmp_path / "out", *flags)
    expect_agreement(run, serve, tmp_path / "out", READER, LAYERS - ("--layer_config" in flags), quantized_inputs=False)


@pytest.mark.parametrize("scheme", ["W4A8", "INT8", "FP8_STATIC", "FP8_TENSOR", "FP8_DYNAMIC", "FP8_BLOCK", "MXFP4", "MXFP8", "NVFP4"])
def test_inputs_too(run, serve, tiny_model, tmp_path, scheme):
    quantize(run, tiny_model, tmp_path / "out", "--scheme", scheme)
    expect_agreement(run, serve, tmp_path / "out", READER, LAYERS, quantized_inputs=True)


@pytest.mark.parametrize("scheme", ["W4A16", "FPW8A16"])
def test_experts(run, serve, tiny_moe, tmp_path, scheme):
    """Transformers stacks the experts while it loads them, as plain weights: the layers of attention are what stays quantized."""
    quantize(run, tiny_moe, tmp_path / "out", "--scheme", scheme)
    expect_agreement(run, serve, tmp_path / "out", READER, 2 * 4, quantized_inputs=False)
