"""quaver convert between formats: the same values where the target can hold them, a clear word where it can't."""
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

SHORT = ["--iters", 2, "--nsamples", 8, "--seqlen", 64, "--batch_size", 4, "--quiet"]


def quantize(run, model, out, form, *flags):
    run("quantize", "--model", model, "--output_dir", out, "--format", form, *SHORT, *flags)
    return out


def plain(run, folder, out):
    run("convert", folder, "--to", "fp32", "--output", out)
    return load_file(out / "model.safetensors")


def assert_same_values(run, a, b, tmp_path, relative=0.0):
    left, right = plain(run, a, tmp_path / "left"), plain(run, b, tmp_path / "right")
    assert left.keys() == right.keys()
    for name in left:
        assert torch.allclose(left[name], right[name], rtol=relative, atol=0), name


@pytest.mark.parametrize("source,target,flags,relative", [
    ("auto_round", "llm_compressor", ["--scheme", "W4A16", "--group_size", 32], 0),
    ("auto_round", "auto_gptq", ["--scheme", "W2A16", "--group_size", 32], 0),
    ("auto_round", "auto_awq", ["--scheme", "W4A16", "--asym"], 0),
    ("llm_compressor", "auto_round", ["--scheme", "W8A16", "--asym"], 0),
    ("auto_gptq", "llm_compressor", ["--scheme", "W3A16", "--group_size", 64], 0),
    ("auto_round", "llm_compressor", ["--scheme", "MXFP4"], 0),
    ("llm_compressor", "auto_round", ["--scheme", "FP8_STATIC"], 0),
    ("llm_compressor", "auto_round", ["--scheme", "FP8_BLOCK"], 0),
    ("llm_compressor", "modelopt", ["--scheme", "FP8_DYNAMIC"], 0),
    ("llm_compressor", "modelopt", ["--scheme", "NVFP4"], 2.0 ** -22),  # one divides by what the other multiplies with
    ("modelopt", "llm_compressor", ["--scheme", "NVFP4"], 2.0 ** -22),
])
def test_values_move_as_they_are(run, tiny_model, tmp_path, source, target, flags, relative):
    a = quantize(run, tiny_model, tmp_path / "a", source, *flags)
    done = run("convert", a, "--to", target, "--output", tmp_path / "b")
    assert "the same values" in done.stdout
    assert_same_values(run, a, tmp_path / "b", tmp_path, relative)


def test_what_decides_and_what_scales_the_cache(run, tiny_latent, tiny_model, tmp_path):
    """A bias that picks experts keeps its 32 bits; scales of a cache go away, also beside attention that is plain."""
    shutil.copytree(tiny_latent, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    name = next(n for n in tensors if n.endswith("e_score_correction_bias"))
    tensors[name] = torch.tensor([0.1, 0.1001, 0.1002, 0.1003])
    save_file(tensors, file, {"format": "pt"})
    run("convert", tmp_path / "m", "--to", "bf16", "--output", tmp_path / "bf16")
    assert torch.equal(load_file(tmp_path / "bf16" / "model.safetensors")[name], tensors[name])
    a = quantize(run, tiny_model, tmp_path / "a", "llm_compressor", "--scheme", "FP8_STATIC", "--kv_cache_dtype", "fp8", "--ignore_layers",
                 "self_attn")
    assert any(n.endswith("self_attn.k_scale") for n in load_file(a / "model.safetensors"))
    for target in ("fp32", "auto_round"):
        run("convert", a, "--to", target, "--output", tmp_path / target)
        assert not any(n.endswith("_scale") and "self_attn" in n for n in load_file(tmp_path / target / "model.safetensors"))
        run("inspect", tmp_path / target)


def test_layers_of_different_bits_and_experts_move(run, tiny_moe, tmp_path):
    rules = json.dumps({"self_attn": {"bits": 8}, "experts.3": {"bits": 2, "group_size": 32}})
    a = quantize(run, tiny_moe, tmp_path / "a", "auto_round", "--ignore_layers", "layers.1.self_attn", "--layer_config", rules)
    run("convert", a, "--to", "llm_compressor", "--output", tmp_path / "b")
    assert_same_values(run, a, tmp_path / "b", tmp_path)
    run("convert", tmp_path / "b", "--to", "auto_round", "--output", tmp_path / "c")
    ours, again = load_file(a / "model.safetensors"), load_file(tmp_path / "c" / "model.safetensors")
    assert ours.keys() == again.keys() and all(torch.equal(ours[n], again[n]) for n in ours)


def test_other_values_need_a_scheme_and_say_so(run, tiny_model, tmp_path):
    a = quantize(run, tiny_model, tmp_path / "a", "auto_round", "--scheme", "W4A16", "--group_size", 32)
    for target, words in [("modelopt", "does not write"), ("auto_awq", None)]:
        done = run("convert", a, "--to", target, "--output", tmp_path / target, status=None)
        assert (done.returncode == 0) == (words is None), done.stderr
        if words:
            assert words in done.stderr and "--scheme NAME" in done.stderr
            assert not list(tmp_path.glob(target + "*"))
    done = run("convert", a, "--to", "modelopt", "--scheme", "NVFP4", "--output", tmp_path / "m")
    assert "rounded anew to NVFP4 by rtn" in done.stdout and not list(tmp_path.glob("m.*"))
    rows = json.loads(run("inspect", tmp_path / "m", "--json").stdout)["linears"]
    assert all(row["storage"].startswith("e2m1") for row in rows)


def test_rounding_anew_deletes_nothing_that_was_there(run, tiny_model, tmp_path):
    a = quantize(run, tiny_model, tmp_path / "a", "auto_round", "--scheme", "W4A16", "--group_size", 32)
    (tmp_path / "m.plain").mkdir()
    (tmp_path / "m.plain" / "diary.txt").write_text("mine")
    done = run("convert", a, "--to", "modelopt", "--scheme", "NVFP4", "--output", str(tmp_path / "m") + "/", status=2)
    assert "m.plain exists" in done.stderr and (tmp_path / "m.plain" / "diary.txt").read_text() == "mine"
    (tmp_path / "m.plain" / "diary.txt").unlink()
    (tmp_path / "m.plain").rmdir()
    run("convert", a, "--to", "modelopt", "--scheme", "NVFP4", "--output", str(tmp_path / "m") + "/")
    assert (tmp_path / "m" / "config.json").exists() and not list(tmp_path.glob("m.*"))


@pytest.mark.parametrize("command", [
    ["quantize", "--avg_bits", 4, "--output_dir"], ["convert", "--to", "auto_round", "--output"],
    ["convert", "--to", "modelopt", "--scheme", "NVFP4", "--output"]])
def test_a_full_folder_is_noticed_before_any_work(run, tiny_model, tmp_path, command):
    model = tiny_model
    if command[0] == "convert":
        model = quantize(run, tiny_model, tmp_path / "a", "auto_round", "--iters", 0, "--disable_opt_rtn")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "diary.txt").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run(command[0], model, *command[1:], tmp_path / "m", status=2)
    assert "m exists and is not empty; choose another" in done.stderr
    for words in ("measuring", "converting", "rounding", "layers:"):
        assert words not in done.stderr + done.stdout, words
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("flags,words", [
    (["--to", "llm_compressor"], "holds no quantized layers"),
    (["--to", "int5"], "--to must be"),
    (["--to", "bf16", "--scheme", "W4A16"], "--scheme goes with"),
    (["--to", "auto_round", "--scheme", "W4A16", "--method", "magic"], "--method must be"),
])
def test_wrong_usage(run, tiny_model, tmp_path, flags, words):
    done = run("convert", tiny_model, "--output", tmp_path / "out", *flags, status=2)
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []
