"""Folders that `quaver quantize` writes, read by Transformers with auto-round: the same weights, hence the same logits.

Weights are exact in float32 on both sides and the arithmetic is float32, so logits differ by the order of summation alone.
"""
import json
import math
import os
import pathlib
import subprocess
import urllib.request

import pytest
import torch
from safetensors.torch import load_file

READER = pathlib.Path(__file__).parent / "other_reader.py"
IDS = list(range(3, 256, 8))
LONGEST_ROW, LINEARS = 256, 28


def other_logits(folder, backend, out):
    done = subprocess.run([os.environ["QUAVER_INTEROP_PYTHON"], str(READER), str(folder), backend, str(out), *map(str, IDS)],
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return load_file(out)["logits"], json.loads(done.stdout.splitlines()[-1])


def our_logprobs(serve, folder):
    """[tokens - 1, vocabulary]; the first row is what follows the first token. float32 by name keeps activations exact."""
    with serve(folder, "--dtype", "float32", "--max-logprobs", 384) as (url, _, _):
        body = {"prompt": IDS, "max_tokens": 1, "temperature": 0, "prompt_logprobs": -1}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        rows = json.load(urllib.request.urlopen(request, timeout=300))["choices"][0]["prompt_logprobs"][1:]
    return torch.tensor([[row[str(i)]["logprob"] for i in range(384)] for row in rows], dtype=torch.float64)


def tolerance(logits):
    """Each of the linears in sequence adds the rounding of one long sum."""
    return LINEARS * math.sqrt(LONGEST_ROW) * torch.finfo(torch.float32).eps * logits.abs().max().item()


def expect_same_logits(run, serve, model, out, backend, reader, *flags):
    """`reader` is the class that holds every quantized layer over there."""
    run("quantize", "--model", model, "--output_dir", out, "--iters", 4, "--nsamples", 8, "--seqlen", 64, "--batch_size", 4,
        "--quiet", *flags)
    logits, kinds = other_logits(out, backend, out.parent / "logits.safetensors")
    assert kinds == {reader: LINEARS}
    theirs = torch.log_softmax(logits.double(), -1)[:-1]
    assert (our_logprobs(serve, out) - theirs).abs().max().item() <= tolerance(logits)


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
    expect_same_logits(run, serve, tiny_model, tmp_path / "out", backend, reader, "--format", "auto_round", *flags)


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
    expect_same_logits(run, serve, tiny_model, tmp_path / "out", backend, reader, "--format", "auto_gptq", *flags)


@pytest.mark.parametrize("flags", [[], ["--asym"], ["--asym", "--group_size", 32]])
def test_auto_round_reads_our_awq_folders(run, serve, tiny_model, tmp_path, flags):
    expect_same_logits(run, serve, tiny_model, tmp_path / "out", "ark", KERNEL_AWQ, "--format", "auto_awq", *flags)
