"""Folders that `quaver quantize --format modelopt` writes, read with NVIDIA's Model Optimizer."""
import pathlib

import pytest

from agreement import expect_agreement

READER = pathlib.Path(__file__).parent / "modelopt_reader.py"
LAYERS = 28


@pytest.mark.parametrize("scheme", ["FP8_TENSOR", "FP8_DYNAMIC", "NVFP4"])
def test_model_optimizer_reads_what_we_write(run, serve, tiny_model, tmp_path, scheme):
    run("quantize", "--model", tiny_model, "--output_dir", tmp_path / "out", "--format", "modelopt", "--scheme", scheme, "--iters", 4,
        "--nsamples", 8, "--seqlen", 64, "--batch_size", 4, "--quiet")
    expect_agreement(run, serve, tmp_path / "out", READER, LAYERS, quantized_inputs=True)
