"""GGUF files that we write, read by llama.cpp: the same token ids, the same greedy continuation, logits within its own roundings."""
import json
import os
import pathlib
import shutil
import subprocess
import urllib.request

import pytest
import torch
from safetensors.torch import load_file

READER = pathlib.Path(__file__).parent / "llama_reader.py"
TEXT = "to the t\u00e9st, it's 12 o'clock"
IDS = list(range(3, 250, 16))
TOKENS = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Random, of width 256, so that super-blocks fill."""
    from conftest import save_byte_tokenizer
    from transformers import LlamaConfig, LlamaForCausalLM
    folder = tmp_path_factory.mktemp("wide") / "model"
    torch.manual_seed(5)
    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=384, max_position_embeddings=512, tie_word_embeddings=False, bos_token_id=256, eos_token_id=257,
                         initializer_range=0.2)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    save_byte_tokenizer(folder)
    document = json.loads((folder / "tokenizer.json").read_text())
    document["model"]["vocab"].update({"<s>": 256, "</s>": 257, "\u0120t": 258})
    document["model"]["merges"] = [["\u0120", "t"]]
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return folder


def theirs(path, out):
    done = subprocess.run([os.environ["QUAVER_INTEROP_PYTHON"], str(READER), str(path), str(out), TEXT, str(TOKENS), *map(str, IDS)],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return load_file(out)["logits"].double(), json.loads(done.stdout.splitlines()[-1])


def ours(serve, path):
    """Log probabilities after each id, the ids of the text, and the greedy continuation."""
    with serve(path, "--dtype", "float32", "--max-logprobs", 384) as (url, _, _):
        def post(route, body):
            request = urllib.request.Request(url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
            return json.load(urllib.request.urlopen(request, timeout=300))
        text = post("/tokenize", {"prompt": TEXT, "add_special_tokens": False})["tokens"]
        body = {"prompt": IDS, "max_tokens": TOKENS, "temperature": 0, "prompt_logprobs": -1, "return_token_ids": True}
        choice = post("/v1/completions", body)["choices"][0]
    rows = choice["prompt_logprobs"][1:]
    logprobs = torch.tensor([[row[str(i)]["logprob"] for i in range(384)] for row in rows], dtype=torch.float64)
    return logprobs, text, choice["token_ids"]


def relative_difference(serve, path, tmp_path):
    logits, answers = theirs(path, tmp_path / "logits.safetensors")
    logprobs, text, greedy = ours(serve, path)
    assert answers["text"] == text and 258 in text
    expected = torch.log_softmax(logits, -1)[:-1]
    return ((logprobs - expected).norm() / expected.norm()).item(), answers["greedy"], greedy


# llama.cpp rounds activations to 8 bits before it multiplies blocks, and keys and values to half precision. A step of 1/127 of a block's largest
# value, 2.1 deviations of 32 values and 2.8 of 256, is an error of 0.0048 and 0.0064 of the deviation for each product; twenty of them follow
# each other in four layers, which makes 0.021 and 0.029. Half as much again is allowed.
BLOCKS_OF_32, BLOCKS_OF_256 = 0.032, 0.043


@pytest.mark.parametrize("mix,bound", [("bf16", 0.01), ("f16", 0.005), ("q8_0", BLOCKS_OF_32), ("q4_0", BLOCKS_OF_32),
                                       ("q4_1", BLOCKS_OF_32), ("q6_k", BLOCKS_OF_256), ("q4_k_m", BLOCKS_OF_256)])
def test_llama_cpp_reads_what_we_write(run, serve, model, tmp_path, mix, bound):
    run("convert", model, "--to", f"gguf:{mix}", "-o", tmp_path / "m.gguf")
    difference, expected, greedy = relative_difference(serve, tmp_path / "m.gguf", tmp_path)
    assert difference < bound
    if mix in ("bf16", "f16"):
        assert greedy == expected


def test_llama_cpp_reads_converted_codes(run, serve, model, tmp_path):
    run("quantize", "--model", model, "--output_dir", tmp_path / "a", "--iters", 0, "--disable_opt_rtn", "--quiet", "--scheme", "W4A16",
        "--group_size", 32)
    run("convert", tmp_path / "a", "--to", "gguf", "-o", tmp_path / "m.gguf")
    difference, _, _ = relative_difference(serve, tmp_path / "m.gguf", tmp_path)
    assert difference < BLOCKS_OF_32


def test_the_real_model_answers_alike(run, serve, smollm2, tmp_path):
    """A file that others made, through a folder and back."""
    run("convert", smollm2, "--to", "bf16", "--output", tmp_path / "plain")
    run("convert", tmp_path / "plain", "--to", "gguf:q8_0", "-o", tmp_path / "m.gguf")
    shutil.rmtree(tmp_path / "plain")
    done = subprocess.run([os.environ["QUAVER_INTEROP_PYTHON"], str(READER), str(tmp_path / "m.gguf"), str(tmp_path / "l.safetensors"),
                           TEXT, str(TOKENS), *map(str, IDS)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    with serve(tmp_path / "m.gguf", "--dtype", "float32") as (url, _, _):
        request = urllib.request.Request(url + "/tokenize", json.dumps({"prompt": TEXT, "add_special_tokens": False}).encode(),
                                         {"Content-Type": "application/json"})
        text = json.load(urllib.request.urlopen(request, timeout=300))["tokens"]
    assert json.loads(done.stdout.splitlines()[-1])["text"] == text
