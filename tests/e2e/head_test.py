"""quaver quantize --quant_lm_head: the head is a layer like others, in every format, tuned and rounded."""
import json
import urllib.request

import pytest
from safetensors.torch import load_file

SHORT = ["--nsamples", 8, "--seqlen", 64, "--batch_size", 4, "--quiet"]


def quantize(run, model, out, form, scheme, *flags, **options):
    return run("quantize", "--model", model, "--output_dir", out, "--format", form, "--scheme", scheme, "--quant_lm_head", *SHORT, *flags,
               **options)


def head_of(run, folder):
    rows = {row["name"]: row for row in json.loads(run("inspect", folder, "--json").stdout)["linears"]}
    assert len(rows) == 2 * 7 + 1
    return rows["lm_head"]


@pytest.mark.parametrize("form,scheme,storage", [
    ("auto_round", "W4A16", "int4"), ("auto_round", "MXFP4", "e2m1 g32"), ("auto_round", "FP8_STATIC", "e4m3fn"),
    ("auto_gptq", "W4A16", "int4"), ("auto_awq", "W4A16", "int4"), ("llm_compressor", "W4A16", "int4"),
    ("llm_compressor", "NVFP4", "e2m1 g16"), ("modelopt", "NVFP4", "e2m1 g16")])
def test_the_head_is_written_in_every_format(run, tiny_untied, tmp_path, form, scheme, storage):
    quantize(run, tiny_untied, tmp_path / "out", form, scheme, "--iters", 2)
    assert head_of(run, tmp_path / "out")["storage"].startswith(storage)
    run("generate", tmp_path / "out", "--prompt", "hello", "--max-tokens", 2, "--temperature", 0)
    run("convert", tmp_path / "out", "--to", "fp32", "--output", tmp_path / "plain")
    before, after = (load_file(p / "model.safetensors")["lm_head.weight"].float() for p in (tiny_untied, tmp_path / "plain"))
    assert 0 < (after - before).norm() / before.norm() < 0.25


def test_settings_say_it_as_the_tools_do(run, tiny_untied, tmp_path):
    def settings(form, *flags):
        quantize(run, tiny_untied, tmp_path / form, form, "W4A16", "--iters", 0, "--disable_opt_rtn", *flags)
        return json.loads((tmp_path / form / "config.json").read_text())["quantization_config"]
    assert settings("auto_round")["extra_config"] == {"lm_head": {"bits": 4, "group_size": 128, "sym": True, "data_type": "int"}}
    assert settings("auto_gptq", "--layer_config", '{"lm_head": {"bits": 8}}')["lm_head"] is True
    assert head_of(run, tmp_path / "auto_gptq")["storage"].startswith("int8")
    assert "lm_head" not in settings("auto_awq").get("modules_to_not_convert", [])
    compressed = settings("llm_compressor")
    assert "lm_head" not in compressed["ignore"] and compressed["config_groups"]["group_0"]["targets"] == ["Linear", "lm_head"]


def test_tuning_lowers_the_heads_loss_and_it_moves_to_other_formats(run, serve, tiny_untied, tmp_path):
    quantize(run, tiny_untied, tmp_path / "out", "auto_round", "W2A16G64", "--iters", 40)
    head = json.loads((tmp_path / "out" / "report.json").read_text())["blocks"][-1]
    assert [layer["name"] for layer in head["layers"]] == ["lm_head"] and head["loss_after"] < 0.9 * head["loss_before"]
    run("convert", tmp_path / "out", "--to", "llm_compressor", "--output", tmp_path / "moved")
    assert head_of(run, tmp_path / "moved")["storage"] == "int2 g64 sym"
    with serve(tmp_path / "moved") as (url, _, _):
        body = json.dumps({"prompt": "hello", "max_tokens": 2, "temperature": 0}).encode()
        request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
        assert json.loads(urllib.request.urlopen(request, timeout=60).read())["usage"]["completion_tokens"] == 2


def test_a_tied_head_is_refused_before_any_work(run, tiny_model, tmp_path):
    done = quantize(run, tiny_model, tmp_path / "out", "auto_round", "W4A16", status=2)
    assert "lm_head is tied to the embedding" in done.stderr and done.stderr.count("quaver:") == 1
    assert list(tmp_path.iterdir()) == []


def test_two_runs_give_the_same_head(run, tiny_untied, tmp_path):
    for name in ("one", "two"):
        quantize(run, tiny_untied, tmp_path / name, "auto_round", "W4A16", "--iters", 4)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all((first[name] == second[name]).all() for name in first)
