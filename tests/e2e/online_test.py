"""--quantization: plain weights rounded while they load, in every command that runs a model."""
import json
import re
import shutil
import subprocess
import time
import urllib.request

import pytest
import synthetic_model
import torch
from packed_models import gptq, Packed, write_packed
from peak_memory import peak_bytes
from safetensors.torch import load_file, save_file

# The scheme of `quantize` that each name stands for, a format that writes it, and what `inspect` calls the layers.
NAMES = {"fp8": ("FP8_DYNAMIC", "llm_compressor", "e4m3fn"), "int8": ("W8A16", "auto_round", "int8"),
         "int4": ("W4A16", "auto_round", "int4"), "mxfp4": ("MXFP4", "auto_round", "e2m1"),
         "mxfp8": ("MXFP8", "auto_round", "e4m3fn"), "nvfp4": ("NVFP4", "llm_compressor", "e2m1")}
ASK = ["--prompt", "hello", "--max-tokens", 8, "--temperature", 0]
ROUNDED = "28 layers of 4 blocks rounded to"


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def folder(run, tiny_model, name, tmp_path_factory):
    """What `quantize` writes where it rounds plainly."""
    scheme, form, _ = NAMES[name]
    out = tmp_path_factory.mktemp("online") / name
    run("quantize", "--model", tiny_model, "--output_dir", out, "--scheme", scheme, "--format", form, "--iters", 0, "--disable_opt_rtn",
        "--nsamples", 8, "--seqlen", 64, "--quiet")
    return out


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_text("The quick brown fox jumps over the lazy dog. " * 20)
    return path


def linears(run, *arguments):
    return json.loads(run("inspect", *arguments, "--json").stdout)["linears"]


def test_layers_are_those_of_the_folder(run, tiny_model, name, folder):
    online, written = linears(run, tiny_model, "--quantization", name), linears(run, folder)
    assert all(row["storage"].startswith(NAMES[name][2]) for row in online) and len(online) == 28
    if name == "nvfp4":  # the folder's inputs have a scale by calibration
        assert {row.pop("input") for row in online} == {"e2m1 g16 under a scale per token"}
        assert {row.pop("input") for row in written} == {"e2m1 g16"}
    assert online == written


def test_logits_are_those_of_the_folder(run, tiny_model, name, folder, text):
    """eval computes in float32 on both sides, so that equal weights and inputs give a divergence of exactly nothing."""
    flags = ["--no-strict-activations"] if name == "nvfp4" else []
    ask = ["eval", tiny_model, "-q", name, "--text", text, "--tokens", 256, "--seqlen", 64, "--json"]
    same = json.loads(run(*ask, "--reference", folder, *flags).stdout)
    assert same["kl"]["mean"] == 0 and same["top1_agreement"]["mean"] == 1 and same["quantization"] == name
    plain = json.loads(run(*ask, "--reference", tiny_model).stdout)
    assert plain["kl"]["mean"] > 0, "the reference stays as it is"


def test_answers_are_those_of_the_folder(run, tiny_model, name, folder):
    flags = ["--no-strict-activations"] if name == "nvfp4" else []
    done = run("generate", tiny_model, "-q", name, *ASK, *flags)
    assert done.stdout == run("generate", folder, *ASK, *flags).stdout
    line = [line for line in done.stderr.splitlines() if "--quantization" in line]
    assert len(line) == 1 and f"--quantization {name}: {ROUNDED}" in line[0]
    assert line[0].endswith("; embed_tokens and lm_head stay bf16")


def test_nvfp4_without_calibration_is_near_the_folder(run, tiny_model, name, folder, text):
    if name != "nvfp4":
        return
    ask = ["eval", tiny_model, "-q", name, "--text", text, "--tokens", 256, "--seqlen", 64, "--json"]
    to_folder = json.loads(run(*ask, "--reference", folder).stdout)["kl"]["mean"]
    to_plain = json.loads(run(*ask, "--reference", tiny_model).stdout)["kl"]["mean"]
    assert 0 < to_folder < to_plain


def lines_until_closed(lines):
    """The log of a server that has ended; a thread reads it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not any("--quantization" in line for line in lines):
        time.sleep(0.05)
    return lines


def test_serve_takes_the_flag_and_its_environment_variable(serve, tiny_model, monkeypatch):
    def first_choice(url):
        body = {"prompt": "hello", "max_tokens": 6, "temperature": 0, "logprobs": 2}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        card = json.load(urllib.request.urlopen(url + "/v1/models"))["data"][0]
        assert card["quantization"] == {"language_model": "int4"}
        return json.load(urllib.request.urlopen(request))["choices"][0]

    with serve(tiny_model, "-q", "int4") as (url, _, lines):
        by_flag = first_choice(url)
    assert sum(f"--quantization int4: {ROUNDED} W4A16 g128 sym" in line for line in lines_until_closed(lines)) == 1
    monkeypatch.setenv("QUAVER_QUANTIZATION", "int4")
    with serve(tiny_model) as (url, _, _):
        assert first_choice(url) == by_flag


def test_experts_are_rounded_and_routers_are_not(run, tiny_moe):
    done = run("inspect", tiny_moe, "-q", "int4")
    assert "56 layers of 2 blocks rounded to" in done.stderr and "embed_tokens, 2 mlp.gate and lm_head stay bf16" in done.stderr
    assert re.search(r"56 layers int4 ", done.stdout) and "rounded to int4 while loading" in done.stdout
    run("generate", tiny_moe, "-q", "int4", *ASK)


def test_a_gguf_is_rounded_as_the_folder_made_of_it(run, smollm2, tmp_path):
    run("convert", smollm2, "--to", "bf16", "--output", tmp_path / "plain")
    ask = ["--prompt", "The capital of France is", "--max-tokens", 8, "--temperature", 0, "--max-model-len", 64, "-q", "int8"]
    done = run("generate", smollm2, *ask)
    assert "210 layers of 30 blocks rounded to W8A16 g128 sym" in done.stderr
    assert done.stdout == run("generate", tmp_path / "plain", *ask).stdout and "Paris" in done.stdout


def test_bench_and_chat_take_it(run, binary, tiny_model):
    table = run("bench", tiny_model, "-q", "int4", "-p", 8, "-n", 2, "-r", 1, "-o", "json")
    assert json.loads(table.stdout)[0]["quantization"] == {"language_model": "int4"}
    said = subprocess.run([binary, "chat", tiny_model, "-q", "int4", "--temperature", "0"], input="hi\n", capture_output=True, text=True,
                          timeout=120)
    assert said.returncode == 0 and ROUNDED in said.stderr


@pytest.fixture(scope="module")
def packed(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "m"
    write_packed(tiny_model, folder, gptq(), lambda _: Packed())
    return folder


def test_a_quantized_folder_takes_its_own_name_alone(run, packed):
    usual = run("generate", packed, *ASK)
    for own in ("gptq", "gptq_marlin", "auto_gptq"):
        assert run("generate", packed, "--quantization", own, *ASK).stdout == usual.stdout
    for other in ("awq", "int4", "fp8"):
        failed = run("generate", packed, "--quantization", other, *ASK, status=2)
        said = failed.stderr.splitlines()[-1]
        assert said.startswith("quaver: ") and "auto_gptq" in said and f"leave --quantization {other} out" in said


def test_unknown_names_are_refused_before_anything_is_looked_for(run, tiny_model):
    for command in (["generate", "no/such-model", *ASK], ["serve", "no/such-model"], ["inspect", "no/such-model"]):
        failed = run(*command, "--quantization", "fp9", status=2)
        assert "'fp9' is not known; known are fp8, int8, int4, mxfp4, mxfp8, nvfp4" in failed.stderr
        assert "such-model" not in failed.stderr
    assert run("serve", "no/such-model", env={"QUAVER_QUANTIZATION": "fp9"}, status=2).stderr.count("fp9") == 1
    failed = run("generate", tiny_model, "-q", "gptq", *ASK, status=2)
    assert "is plain, not gptq" in failed.stderr


def test_a_weight_that_is_not_finite_is_named(run, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    tensors = load_file(tmp_path / "m" / "model.safetensors")
    name = "model.layers.2.mlp.up_proj.weight"
    tensors[name][3, 5] = torch.nan
    save_file(tensors, tmp_path / "m" / "model.safetensors", {"format": "pt"})
    for quantization in ("int4", "fp8", "nvfp4"):
        said = run("inspect", tmp_path / "m", "-q", quantization, status=1).stderr.splitlines()[-1]
        assert "model.safetensors" in said and name in said and "not finite" in said


def test_help_says_what_names_mean(run):
    for command in ("serve", "chat", "generate", "eval", "bench", "inspect"):
        said = " ".join(run(command, "--help").stdout.split())
        assert all(f"{name} = {scheme}" in said for name, (scheme, _, _) in NAMES.items()), command


@pytest.mark.parametrize("experts", [0, 8], ids=["dense", "experts"])
def test_loading_never_holds_the_plain_model(binary, tmp_path, experts):
    """Beyond what a tiny model takes: the quantized layers, what stays plain, and the largest tensor."""
    synthetic_model.write(tmp_path / "smallest", 0, **synthetic_model.SMALLEST, experts=experts, stored="plain")
    total, largest = synthetic_model.write(tmp_path / "m", 400 << 20, width=1024 if experts else 8192, vocabulary=8192, experts=experts,
                                           shard_bytes=1 << 26, stored="plain")
    flags = ["-q", "int4", "--prompt", "a", "--max-tokens", 1, "--max-model-len", 16, "--kv-cache-memory", 1 << 23]
    base = peak_bytes([binary, "generate", tmp_path / "smallest", *flags])
    table = 8192 * 2048 * 2  # the embedding, which is the head too
    quantized = (total - table) * (4 / 16 + 2 / 128)
    kernel_head = table  # laid out for its kernel beside the table
    slices = 32 << 20
    assert peak_bytes([binary, "generate", tmp_path / "m", *flags]) - base <= quantized + table + kernel_head + largest + slices < total
