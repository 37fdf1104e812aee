"""quaver quantize with floats and quantized activations, in every format that has words for them."""
import json
import math

import pytest
import torch
from safetensors.torch import load_file

SHORT = ["--nsamples", 8, "--seqlen", 64, "--batch_size", 4, "--quiet"]
LINEARS = 28
# What `inspect` calls it, and the bits that a code takes.
CASES = {
    ("auto_round", "MXFP4"): "e2m1 g32", ("auto_round", "MXFP8"): "e4m3fn g32", ("auto_round", "NVFP4"): "e2m1 g16",
    ("auto_round", "FP8_STATIC"): "e4m3fn", ("auto_round", "FP8_BLOCK"): "e4m3fn", ("auto_round", "FPW8A16"): "e4m3fn",
    ("llm_compressor", "W4A16"): "int4", ("llm_compressor", "W4A8"): "int4", ("llm_compressor", "INT8"): "int8",
    ("llm_compressor", "MXFP4"): "e2m1 g32", ("llm_compressor", "MXFP8"): "e4m3fn g32", ("llm_compressor", "NVFP4"): "e2m1 g16",
    ("llm_compressor", "FP8_STATIC"): "e4m3fn", ("llm_compressor", "FP8_DYNAMIC"): "e4m3fn", ("llm_compressor", "FP8_BLOCK"): "e4m3fn",
    ("modelopt", "NVFP4"): "e2m1 g16", ("modelopt", "FP8_TENSOR"): "e4m3fn", ("modelopt", "FP8_DYNAMIC"): "e4m3fn",
}


def quantize(run, model, out, form, scheme, *flags, **options):
    return run("quantize", "--model", model, "--output_dir", out, "--format", form, "--scheme", scheme, *SHORT, *flags, **options)


def linears(run, folder):
    return json.loads(run("inspect", folder, "--json").stdout)["linears"]


def plain(run, folder, out):
    run("convert", folder, "--to", "fp32", "--output", out)
    return load_file(out / "model.safetensors")


@pytest.mark.parametrize("form,scheme", CASES)
def test_every_scheme_is_written_and_loads_again(run, tiny_model, tmp_path, form, scheme):
    quantize(run, tiny_model, tmp_path / "out", form, scheme, "--iters", 2)
    rows = linears(run, tmp_path / "out")
    assert len(rows) == LINEARS and all(row["storage"].startswith(CASES[form, scheme]) for row in rows), rows[0]
    run("generate", tmp_path / "out", "--prompt", "hello", "--max-tokens", 2, "--temperature", 0)


@pytest.mark.parametrize("scheme,largest", [("MXFP4", 0.2), ("NVFP4", 0.15), ("MXFP8", 0.04), ("FP8_STATIC", 0.04), ("FP8_BLOCK", 0.04),
                                            ("INT8", 0.01)])
def test_weights_stay_near(run, tiny_model, tmp_path, scheme, largest):
    """Relative error of the whole: half a step of the element, which is 1/4 to 1/2 of e2m1 and 1/16 of e4m3 values."""
    form = "llm_compressor"
    quantize(run, tiny_model, tmp_path / "out", form, scheme, "--iters", 0, "--disable_opt_rtn")
    before, after = load_file(tiny_model / "model.safetensors"), plain(run, tmp_path / "out", tmp_path / "plain")
    name = "model.layers.1.mlp.down_proj.weight"
    error = (after[name] - before[name].float()).norm() / before[name].float().norm()
    assert 0 < error < largest


@pytest.mark.parametrize("scheme", ["MXFP4", "NVFP4"])
def test_tuning_beats_rounding(run, tiny_model, tmp_path, scheme):
    quantize(run, tiny_model, tmp_path / "out", "auto_round", scheme, "--iters", 60)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    ratios = [block["loss_after"] / block["loss_before"] for block in report["blocks"]]  # what 4-bit inputs cost stays
    assert max(ratios) < 1 and sum(ratios) / len(ratios) < 0.85


def test_fused_layers_share_nvfp4s_global_scale_and_inputs_are_measured(run, tiny_model, tmp_path):
    quantize(run, tiny_model, tmp_path / "out", "llm_compressor", "NVFP4", "--iters", 0, "--disable_opt_rtn")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    layer = "model.layers.0.self_attn."
    of = lambda part: [tensors[f"{layer}{x}_proj.{part}"].item() for x in "qkv"]
    assert len(set(of("weight_global_scale"))) == 1 and len(set(of("input_global_scale"))) == 1
    largest = max(load_file(tiny_model / "model.safetensors")[f"{layer}{x}_proj.weight"].abs().max().item() for x in "qkv")
    assert math.isclose(of("weight_global_scale")[0], 448 * 6 / largest, rel_tol=1e-6)


@pytest.mark.parametrize("form,base,other", [
    ("llm_compressor", "W4A16", "NVFP4"), ("llm_compressor", "MXFP4", "W8A16"), ("llm_compressor", "MXFP4", "MXFP8"),
    ("llm_compressor", "INT8", "FP8_BLOCK"), ("auto_round", "MXFP4", "MXFP8"), ("auto_round", "NVFP4", "MXFP8"),
    ("modelopt", "NVFP4", "FP8_TENSOR"), ("modelopt", "FP8_DYNAMIC", "NVFP4")])
def test_layers_of_several_schemes_and_of_16_bits_stand_in_one_folder(run, tiny_model, tmp_path, form, base, other):
    rules = json.dumps({"down_proj": other, "layers.3.": "BF16"})
    quantize(run, tiny_model, tmp_path / "out", form, base, "--iters", 0, "--layer_config", rules)
    rows = {row["name"]: row for row in linears(run, tmp_path / "out")}
    one = lambda scheme: {"W4A16": "int4", "W8A16": "int8", "INT8": "int8", "NVFP4": "e2m1 g16", "MXFP4": "e2m1 g32"}.get(scheme, "e4m3fn")
    for name, row in rows.items():
        wanted = "Float" if ".layers.3." in name else one(other) if "down_proj" in name else one(base)
        assert row["storage"].startswith(wanted) or (wanted == "Float" and "loat" in row["storage"]), row
    quantized_input = lambda scheme: not scheme.endswith("A16")
    assert bool(rows["model.layers.1.mlp.down_proj"]["input"]) == quantized_input(other)
    assert bool(rows["model.layers.1.mlp.up_proj"]["input"]) == quantized_input(base)
    run("generate", tmp_path / "out", "--prompt", "hello", "--max-tokens", 2, "--temperature", 0)
    plain_values = plain(run, tmp_path / "out", tmp_path / "plain")
    if form != "llm_compressor" and base.endswith("4"):
        run("convert", tmp_path / "out", "--to", "llm_compressor", "--output", tmp_path / "moved")
        moved = plain(run, tmp_path / "moved", tmp_path / "moved_plain")
        assert all(torch.allclose(moved[name], tensor, rtol=2**-21, atol=0) for name, tensor in plain_values.items())


def test_settings_name_what_stays_plain(run, tiny_model, tiny_moe, tmp_path):
    quantize(run, tiny_model, tmp_path / "dense", "llm_compressor", "W4A16", "--iters", 0, "--ignore_layers", "layers.0.mlp")
    settings = json.loads((tmp_path / "dense" / "config.json").read_text())["quantization_config"]
    assert {"lm_head", "model.layers.0.mlp.up_proj"} <= set(settings["ignore"])
    quantize(run, tiny_moe, tmp_path / "moe", "llm_compressor", "FP8_DYNAMIC", "--iters", 0)
    settings = json.loads((tmp_path / "moe" / "config.json").read_text())["quantization_config"]
    assert {"lm_head", "model.layers.0.mlp.gate", "model.layers.1.mlp.gate"} <= set(settings["ignore"])


def test_modelopt_settings_stand_in_the_older_file_too(run, tiny_model, tmp_path):
    quantize(run, tiny_model, tmp_path / "out", "modelopt", "NVFP4", "--iters", 0, "--disable_opt_rtn", "--ignore_layers", "layers.0.mlp")
    settings = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    older = json.loads((tmp_path / "out" / "hf_quant_config.json").read_text())
    assert not (tmp_path / "out" / "quantization_config.json").exists()
    assert older["producer"] == settings["producer"]
    assert older["quantization"] == {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16, "exclude_modules": settings["ignore"]}
    assert "model.layers.0.mlp.up_proj" in settings["ignore"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    del config["quantization_config"]  # the older file alone says it all
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    assert json.loads(run("inspect", tmp_path / "out", "--json").stdout)["format"] == "modelopt"


@pytest.mark.parametrize("form,scheme,flags,words", [
    ("auto_gptq", "MXFP4", [], "this format holds integers"),
    ("auto_awq", "NVFP4", [], "this format holds integers"),
    ("auto_round", "INT8", [], "MXFP4, MXFP8, NVFP4, FP8_STATIC"),
    ("auto_round", "FP8_DYNAMIC", [], "FP8_STATIC"),
    ("modelopt", "MXFP4", [], "does not write"),
    ("llm_compressor", "MXFP4", ["--bits", 8], "can't be had"),
    ("llm_compressor", "W4A16", ["--group_size", 48], "no whole number of groups of 48"),
    ("auto_round", "MXFP4", ["--layer_config", '{"layers.1.": "FP8_BLOCK"}'], "layers.1.mlp.down_proj"),
    ("auto_round", "W4A16", ["--layer_config", '{"o_proj": "MXFP4"}'], "self_attn.o_proj' as e2m1 in groups of 32"),
    ("auto_gptq", "W4A16", ["--layer_config", '{"o_proj": "NVFP4"}'], "self_attn.o_proj' as e2m1 in groups of 16"),
    ("modelopt", "NVFP4", ["--layer_config", '{"o_proj": "MXFP8"}'], "self_attn.o_proj': this format does not write e4m3fn in groups"),
    ("nonsense", "MXFP4", [], "writable are"),
    ("auto_round", "MXFP5", [], "known are"),
])
def test_what_a_format_has_no_words_for_is_refused_before_any_work(run, tiny_model, tmp_path, form, scheme, flags, words):
    done = quantize(run, tiny_model, tmp_path / "out", form, scheme, *flags, status=2)
    assert words in done.stderr and done.stderr.count("quaver:") == 1
    assert list(tmp_path.iterdir()) == []
