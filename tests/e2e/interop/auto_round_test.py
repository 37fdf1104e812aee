"""Folders that `quaver quantize` writes, read by Transformers with auto-round: the same weights, hence the same logits."""
import json
import pathlib

import pytest

from agreement import ask, expect_same_logits

READER = pathlib.Path(__file__).parent / "auto_round_reader.py"
LONGEST_ROW, LINEARS = 256, 28


def expect_agreement(run, serve, model, out, backend, reader, *flags):
    """`reader` is the class that holds every quantized layer over there."""
    run("quantize", "--model", model, "--output_dir", out, "--iters", 4, "--nsamples", 8, "--seqlen", 64, "--batch_size", 4,
        "--quiet", *flags)
    tensors, printed = ask(READER, out, out.parent / "logits.safetensors", backend)
    assert json.loads(printed.splitlines()[-1]) == {reader: LINEARS}
    expect_same_logits(serve, out, tensors["logits"], LINEARS, LONGEST_ROW)


TORCH, TORCH_MINUS_ONE = (f"auto_round_extension.torch.qlinear_torch{x}.QuantLinear" for x in ("", "_zp"))
KERNEL_GPTQ, KERNEL_AWQ = (f"auto_round_kernel.qlinear.QuantLinear{x}" for x in ("GPTQ", "AWQ"))


@pytest.mark.parametrize("flags,backend,reader", [
    (["--scheme", "W4A16", "--group_size", 32], "torch", TORCH_MINUS_ONE),
    (["--scheme", "W4A16"], "torch", TORCH_MINUS_ONE),
    (["--scheme", "W2A16", "--group_size", 64], "torch", TORCH_MINUS_ONE),
    (["--scheme", "W3A16", "--asym"], "torch", TORCH),
    (["--scheme", "W2A16", "--asym"], "torch", TORCH),
    (["--scheme", "W8A16", "--asym"], "torch", TORCH),
    (["--scheme", "W4A16", "--asym"], "ark", KERNEL_AWQ),
])
def test_auto_round_reads_what_we_write(run, serve, tiny_model, tmp_path, flags, backend, reader):
    expect_agreement(run, serve, tiny_model, tmp_path / "out", backend, reader, "--format", "auto_round", *flags)


@pytest.mark.parametrize("flags,backend,reader", [
    (["--scheme", "W4A16"], "torch", TORCH_MINUS_ONE),
    (["--scheme", "W3A16", "--group_size", 32], "torch", TORCH_MINUS_ONE),
    (["--scheme", "W8A16"], "torch", TORCH_MINUS_ONE),
    (["--scheme", "W4A16"], "ark", KERNEL_GPTQ),
    (["--scheme", "W2A16", "--asym"], "ark", KERNEL_GPTQ),
    (["--scheme", "W4A16", "--asym"], "ark", KERNEL_GPTQ),
    (["--scheme", "W8A16", "--asym"], "ark", KERNEL_GPTQ),
])
def test_auto_round_reads_our_gptq_folders(run, serve, tiny_model, tmp_path, flags, backend, reader):
    expect_agreement(run, serve, tiny_model, tmp_path / "out", backend, reader, "--format", "auto_gptq", *flags)


@pytest.mark.parametrize("flags", [[], ["--asym"], ["--asym", "--group_size", 32]])
def test_auto_round_reads_our_awq_folders(run, serve, tiny_model, tmp_path, flags):
    expect_agreement(run, serve, tiny_model, tmp_path / "out", "ark", KERNEL_AWQ, "--format", "auto_awq", *flags)
