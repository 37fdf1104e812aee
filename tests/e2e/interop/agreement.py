"""Whether another reader and the server make the same of a folder: the same weights bit for bit, and the same logits.

Both sides compute in float32, so logits differ by the order of summation alone. Where inputs are quantized, that order may push a value
across the border between two codes, and everything behind it then sees another input. This happens to few tokens; hence many short prompts,
of which most must agree. A reader that quantized inputs in another way, or not at all, would agree on none.
"""
import json
import math
import os
import subprocess
import urllib.request

import torch
from safetensors.torch import load_file

PROMPTS = [[i, 5 * i % 256, 7] for i in range(3, 256, 8)]  # logits are compared after the second token
VOCABULARY = 384


def ask(reader, folder, out, *options):
    """Runs a reader in the environment of the other tools: the tensors that it saved, "logits" [prompts, vocabulary] among them, and what it
    printed."""
    done = subprocess.run([os.environ["QUAVER_INTEROP_PYTHON"], str(reader), str(folder), str(out), json.dumps(PROMPTS), *options],
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return load_file(out), done.stdout


def our_weights(run, folder, out):
    run("convert", folder, "--to", "fp32", "--output", out)
    return load_file(out / "model.safetensors")


def our_logprobs(serve, folder):
    """[prompts, vocabulary]. float32 by name keeps weights and activations exact."""
    with serve(folder, "--dtype", "float32", "--max-logprobs", VOCABULARY) as (url, _, _):
        body = {"prompt": PROMPTS, "max_tokens": 1, "temperature": 0, "prompt_logprobs": -1}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        choices = json.load(urllib.request.urlopen(request, timeout=300))["choices"]
    rows = [choice["prompt_logprobs"][2] for choice in choices]
    return torch.tensor([[row[str(i)]["logprob"] for i in range(VOCABULARY)] for row in rows], dtype=torch.float64)


def tolerance(logits, layers, longest_row):
    """Each of the layers in sequence adds the rounding of one long sum."""
    return layers * math.sqrt(longest_row) * torch.finfo(torch.float32).eps * logits.abs().max().item()


def expect_same_logits(serve, folder, logits, layers, longest_row, quantized_inputs=False):
    difference = (our_logprobs(serve, folder) - torch.log_softmax(logits.double(), -1)).abs().amax(-1)
    agreeing = (difference <= tolerance(logits, layers, longest_row)).double().mean().item()
    assert agreeing > 0.5 if quantized_inputs else agreeing == 1, sorted(difference.tolist())


def expect_agreement(run, serve, folder, reader, layers, quantized_inputs):
    """`layers` is how many are quantized; the reader saves the weights of all of them."""
    theirs, _ = ask(reader, folder, folder.parent / "theirs.safetensors")
    logits, ours = theirs.pop("logits"), our_weights(run, folder, folder.parent / "plain")
    assert len(theirs) == layers
    assert [name for name, weight in theirs.items() if not torch.equal(weight, ours[name])] == []
    expect_same_logits(serve, folder, logits, layers, max(weight.shape[1] for weight in theirs.values()), quantized_inputs)
