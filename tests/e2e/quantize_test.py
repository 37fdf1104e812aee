"""quaver quantize as a user runs it: every format and scheme, resume after kill -9, bad arguments, other readers."""
import json
import signal
import subprocess
import time

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

SHORT = ["--iters", 8, "--nsamples", 8, "--seqlen", 64, "--batch_size", 4, "--quiet"]


def quantize(run, model, out, *flags, **options):
    return run("quantize", "--model", model, "--output_dir", out, *SHORT, *flags, **options)


def files_of(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if not p.name.startswith("report.")}


@pytest.mark.parametrize("form,flags", [
    ("auto_round", ["--scheme", "W4A16", "--group_size", 32]),
    ("auto_round", ["--scheme", "W2A16G64"]),
    ("auto_round", ["--scheme", "W3A16", "--asym"]),
    ("auto_round", ["--scheme", "W4A16", "--asym", "--iters", 0]),
    ("auto_round", ["--scheme", "W8A16", "--group-size", -1, "--iters", 0, "--disable_opt_rtn"]),
    ("auto_gptq", ["--scheme", "W4A16"]),
    ("auto_gptq", ["--scheme", "W2A16", "--group_size", 32, "--asym"]),
    ("auto_gptq", ["--scheme", "W2A16", "--group_size", 32, "--asym", "--iters", 0]),
    ("auto_awq", ["--scheme", "W4A16", "--asym"]),
])
def test_every_format_loads_again(run, tiny_model, tmp_path, form, flags):
    out = tmp_path / "out"
    quantize(run, tiny_model, out, "--format", form, *flags)
    layers = json.loads(run("inspect", out, "--json").stdout)
    assert layers["format"] == form
    assert all(row["storage"].startswith("int") for row in layers["linears"]) and len(layers["linears"]) == 28
    answer = run("generate", out, "--prompt", "hello", "--max-tokens", 4, "--temperature", 0)
    assert answer.stdout is not None
    for name in ("config.json", "quantization_config.json", "tokenizer.json", "chat_template.jinja", "report.html"):
        assert (out / name).exists(), name


@pytest.mark.parametrize("flags", [["--scheme", "W4A16", "--group_size", 32], ["--scheme", "MXFP4", "--format", "llm_compressor"]])
def test_latent_attention_is_tuned_as_every_other(run, tiny_latent, tmp_path, flags):
    out = tmp_path / "out"
    quantize(run, tiny_latent, out, *flags)
    before, after = load_file(tiny_latent / "model.safetensors"), load_file(out / "model.safetensors")
    for name, tensor in before.items():
        if ".layers." in name and ("_proj.weight" in name or "_mqa.weight" in name):
            assert name not in after, name
        else:
            assert torch.equal(after[name], tensor), name
    rows = [r["name"] for r in json.loads(run("inspect", out, "--json").stdout)["linears"]]
    assert len(rows) == 5 + 3 + 5 + 3 * 4 + 3 and "model.layers.1.mlp.shared_experts.up_proj" in rows
    run("generate", out, "--prompt", "hello", "--max-tokens", 4, "--temperature", 0)


@pytest.mark.parametrize("form,scheme,names", [
    ("auto_round", "W4A16", ("k_scale", "v_scale")), ("llm_compressor", "FP8_DYNAMIC", ("k_scale", "v_scale")),
    ("modelopt", "NVFP4", ("k_proj.k_scale", "v_proj.v_scale"))])
def test_scales_of_the_cache_are_the_largest_seen(run, tiny_model, tmp_path, form, scheme, names):
    """Values of the first layer depend on the tokens alone; keys stand behind the rotation, which keeps the lengths of pairs."""
    out = tmp_path / "out"
    text = tmp_path / "text.txt"
    text.write_text("a quick brown fox jumps over the lazy dog and back again " * 40)
    flags = ["--format", form, "--scheme", scheme, "--iters", 0, "--disable_opt_rtn", "--kv_cache_dtype", "fp8", "--dataset", text]
    quantize(run, tiny_model, out, *flags)
    tensors = load_file(out / "model.safetensors")
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model, seen = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32), {}
    attention = model.model.layers[0].self_attn
    for part in "kv":
        getattr(attention, f"{part}_proj").register_forward_hook(lambda m, x, y, part=part: seen.update({part: y.abs().max().item()}))
    model(torch.tensor([AutoTokenizer.from_pretrained(tiny_model)(text.read_text()).input_ids[:64]]))
    for part, name in zip("kv", names):
        for layer in range(4):
            assert tensors[f"model.layers.{layer}.self_attn.{name}"].item() > 0
        ratio = tensors[f"model.layers.0.self_attn.{name}"].item() * 448 / seen[part]
        assert (0.7 if part == "k" else 0.97) < ratio < (1.45 if part == "k" else 1.03), (part, ratio)
    assert "asks for keys and values in 8 bits" in run("inspect", out).stderr


@pytest.mark.parametrize("flags,message", [
    (["--format", "auto_gptq", "--kv_cache_dtype", "fp8"], "has no words for a quantized cache"),
    (["--kv_cache_dtype", "int8"], "must be auto or fp8, got 'int8'"),
    (["--avg_bits", 1.5], "--avg_bits 1.5 can't be had: the smallest options take 2.140625 bits"),
    (["--options", "W4A16"], "for which --avg_bits gives the mean"),
    (["--avg_bits", 4, "--bits", 4], "give one of them"),
    (["--avg_bits", 6, "--scheme", "FP8_BLOCK"], "name the schemes to mix by --options"),
    (["--avg_bits", 6, "--options", "W4A16,MXFP8"], "this format"),
    (["--avg_bits", 6, "--format", "auto_awq"], "this format holds 4 bits"),
])
def test_cache_and_mixes_are_refused_before_any_work(run, tiny_model, tmp_path, flags, message):
    failed = quantize(run, tiny_model, tmp_path / "out", *flags, status=2)
    assert message in failed.stderr and failed.stderr.count("quaver:") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form,options,mean", [("auto_round", "W2A16,W4A16,W8A16", 3.5), ("auto_gptq", "W2A16,W4A16", 3),
                                               ("llm_compressor", "MXFP4,MXFP8,BF16", 6), ("modelopt", "NVFP4,FP8_TENSOR", 6)])
def test_a_mean_of_bits_is_kept_and_fused_layers_agree(run, tiny_model, tmp_path, form, options, mean):
    out = tmp_path / "out"
    done = quantize(run, tiny_model, out, "--format", form, "--iters", 0, "--avg_bits", mean, "--options", options)
    report = json.loads((out / "report.json").read_text())
    assert report["scheme"] in done.stdout
    found = float(report["scheme"].split(" bits on average")[0])
    assert mean - 0.5 < found <= mean
    storage = {r["name"].removeprefix("model.layers."): r["storage"] for r in json.loads(run("inspect", out, "--json").stdout)["linears"]}
    assert len(set(storage.values())) >= 2
    for layer in range(4):
        assert len({storage[f"{layer}.self_attn.{part}_proj"] for part in "qkv"}) == 1
        assert len({storage[f"{layer}.mlp.{part}_proj"] for part in ("gate", "up")}) == 1
    assert all("predicted loss" in layer["remark"] for block in report["blocks"] for layer in block["layers"])
    assert "fits no tensor" not in done.stderr
    run("generate", out, "--prompt", "hello", "--max-tokens", 2, "--temperature", 0)


def test_experts_of_a_block_get_one_scheme(run, tiny_moe, tmp_path):
    quantize(run, tiny_moe, tmp_path / "out", "--iters", 0, "--disable_opt_rtn", "--avg_bits", 3.2, "--options", "W2A16,W4A16")
    rows = {r["name"]: r["storage"] for r in json.loads(run("inspect", tmp_path / "out", "--json").stdout)["linears"]}
    assert len(set(rows.values())) == 2
    for block in range(2):
        assert len({storage for name, storage in rows.items() if f"layers.{block}.mlp.experts." in name}) == 1


def test_layers_left_out_stay_plain(run, tiny_model, tmp_path):
    out = tmp_path / "out"
    rules = json.dumps({"model.layers.2.mlp.down_proj": {"bits": 8, "group_size": 32}})
    quantize(run, tiny_model, out, "--ignore_layers", "layers.0,self_attn.v_proj", "--layer_config", rules)
    names = set(load_file(out / "model.safetensors"))
    assert "model.layers.0.mlp.up_proj.weight" in names and "model.layers.0.mlp.up_proj.qweight" not in names
    assert "model.layers.1.self_attn.v_proj.weight" in names
    assert "model.layers.1.self_attn.q_proj.qweight" in names
    rows = {r["name"]: r["storage"] for r in json.loads(run("inspect", out, "--json").stdout)["linears"]}
    assert rows["model.layers.2.mlp.down_proj"] == "int8 g32 sym"


def test_f048_kill_and_resume_gives_the_same_bytes(run, binary, tiny_model, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    flags = ["--iters", 60, "--scheme", "W4A16"]
    quantize(run, tiny_model, whole, *flags)
    command = [str(binary), "quantize", "--model", str(tiny_model), "--output_dir", str(cut), *map(str, SHORT), *map(str, flags)]
    staged = tmp_path / "cut.partial" / "staged"
    for kill_after in (1, 3):
        process = subprocess.Popen(command + ["--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(staged.glob("*.safetensors"))) < kill_after:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not cut.exists()
    quantize(run, tiny_model, cut, *flags, "--resume")
    assert files_of(whole) == files_of(cut)
    names = set(load_file(cut / "model.safetensors"))
    assert not any(n[:-len(".qweight")] + ".weight" in names for n in names if n.endswith(".qweight"))
    assert not (tmp_path / "cut.partial").exists()


def test_an_interrupted_run_is_not_resumed_with_other_arguments(run, tiny_model, tmp_path):
    partial = tmp_path / "out.partial"
    partial.mkdir()
    (partial / "job.json").write_text(json.dumps({"iters": 1}))
    failed = quantize(run, tiny_model, tmp_path / "out", status=2)
    assert "--resume continues it" in failed.stderr
    failed = quantize(run, tiny_model, tmp_path / "out", "--resume", status=2)
    assert "can't resume" in failed.stderr


@pytest.mark.parametrize("flags,message", [
    (["--scheme", "W9A9"], "scheme 'W9A9' is not known"),
    (["--bits", 5], "bits must be"),
    (["--group_size", 0], "group_size must be"),
    (["--format", "nonsense"], "format 'nonsense' can't be written"),
    (["--layer_config", '{"no_such_layer": {"bits": 8}}'], "matches no layer"),
    (["--dataset", "nowhere.jsonl"], "does not exist"),
    (["--no_such_flag"], "--no_such_flag"),
])
def test_bad_arguments_are_named_before_any_work(run, tiny_model, tmp_path, flags, message):
    status = 1 if "nowhere.jsonl" in flags else 2
    failed = quantize(run, tiny_model, tmp_path / "out", *flags, status=status)
    assert message in failed.stderr
    assert not (tmp_path / "out").exists()


def test_the_models_own_folder_is_never_the_target(run, tiny_model):
    failed = quantize(run, tiny_model, tiny_model, "--overwrite", status=2)
    assert "the model's own folder" in failed.stderr
    assert (tiny_model / "config.json").exists()


def test_a_quantized_model_is_not_quantized_again(run, tiny_model, tmp_path):
    quantize(run, tiny_model, tmp_path / "once", "--iters", 0)
    failed = quantize(run, tmp_path / "once", tmp_path / "twice", status=2)
    assert "quantized already" in failed.stderr


def test_transformers_sees_the_same_weights(run, tiny_model, tmp_path):
    """The packed tensors, unpacked by a few independent lines, equal what `quaver convert` writes."""
    out, plain = tmp_path / "out", tmp_path / "plain"
    quantize(run, tiny_model, out, "--scheme", "W4A16")
    run("convert", out, "--to", "fp32", "--output", plain)
    packed, dense = load_file(out / "model.safetensors"), load_file(plain / "model.safetensors")
    for name, scales in packed.items():
        if not name.endswith(".scales"):
            continue
        base = name[:-len(".scales")]
        shifts = torch.arange(8, dtype=torch.int32) * 4
        codes = ((packed[base + ".qweight"].unsqueeze(1) >> shifts[None, :, None]) & 15).flatten(0, 1)
        zeros = ((packed[base + ".qzeros"].unsqueeze(-1) >> shifts) & 15).flatten(1) + 1
        group = torch.arange(codes.shape[0]) // 128
        assert torch.equal(((codes - zeros[group]).float() * scales[group].float()).T, dense[base + ".weight"])


def test_sizes_shards_and_metadata(run, tiny_model, tmp_path):
    out = tmp_path / "out"
    quantize(run, tiny_model, out, "--iters", 0)
    with safe_open(out / "model.safetensors", "pt") as handle:
        assert handle.metadata() == {"format": "pt"}
    assert not (out / "model.safetensors.index.json").exists()
    report = json.loads((out / "report.json").read_text())
    assert report["bytes"] < report["source_bytes"] and len(report["blocks"]) == 4
