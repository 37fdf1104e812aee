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


def other_logits(folder, out):
    done = subprocess.run([os.environ["QUAVER_INTEROP_PYTHON"], str(READER), str(folder), str(out), *map(str, IDS)],
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


@pytest.mark.parametrize("flags", [
    ["--scheme", "W4A16", "--group_size", 32],
    ["--scheme", "W4A16"],
    ["--scheme", "W2A16", "--group_size", 64],
    ["--scheme", "W3A16", "--asym"],
    ["--scheme", "W2A16", "--asym"],
    ["--scheme", "W8A16", "--asym"],
])
def test_auto_round_reads_what_we_write(run, serve, tiny_model, tmp_path, flags):
    out = tmp_path / "out"
    run("quantize", "--model", tiny_model, "--output_dir", out, "--format", "auto_round", "--iters", 4, "--nsamples", 8,
        "--seqlen", 64, "--batch_size", 4, "--quiet", *flags)
    logits, kinds = other_logits(out, tmp_path / "logits.safetensors")
    assert sum(kinds.values()) == LINEARS, kinds
    theirs = torch.log_softmax(logits.double(), -1)[:-1]
    ours = our_logprobs(serve, out)
    assert (ours - theirs).abs().max().item() <= tolerance(logits)
