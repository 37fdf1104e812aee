"""Reported faults of quantizing, named by their ids: docs/field-cases.md."""
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

SHORT = ["--iters", 0, "--disable_opt_rtn", "--quiet"]


def quantize(run, model, out, *flags, **options):
    return run("quantize", "--model", model, "--output_dir", out, *(SHORT if "--iters" not in flags else ["--quiet"]), *flags, **options)


def schemes(run, folder):
    return {row["name"]: row["storage"] for row in json.loads(run("inspect", folder, "--json").stdout)["linears"]}


def test_f011_fused_layers_of_several_widths_are_warned_of_or_aligned(run, tiny_model, tmp_path):
    rules = json.dumps({"model.layers.0.self_attn.k_proj": {"bits": 8}})
    done = quantize(run, tiny_model, tmp_path / "mixed", "--layer_config", rules)
    assert "model.layers.0.self_attn.k_proj (W8A16" in done.stderr and "--align_fused" in done.stderr
    done = quantize(run, tiny_model, tmp_path / "even", "--layer_config", rules, "--align_fused")
    assert "--align_fused" not in done.stderr
    found = schemes(run, tmp_path / "even")
    assert {x: found[f"model.layers.0.self_attn.{x}_proj"].split()[0] for x in "qkvo"} == \
        {"q": "int8", "k": "int8", "v": "int8", "o": "int4"}


def test_f050_an_expert_that_sees_no_token_gets_a_finite_scale_and_a_remark(run, tiny_moe, tmp_path):
    """Of each pair of opposite router rows one is above zero: experts 4 to 7 are never among the best two."""
    shutil.copytree(tiny_moe, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    for layer in range(2):
        router = tensors[f"model.layers.{layer}.mlp.gate.weight"]
        router[1], router[3], router[4:] = -router[0], -router[2], 0
    save_file(tensors, file, {"format": "pt"})
    for flags in (["--iters", 0], ["--iters", 2]):
        out = tmp_path / f"out{flags[1]}"
        quantize(run, tmp_path / "m", out, *flags, "--nsamples", 4, "--seqlen", 32, "--batch_size", 2)
        scales = {n: t for n, t in load_file(out / "model.safetensors").items() if n.endswith(".scales")}
        assert all(torch.isfinite(t).all() and (t != 0).all() for t in scales.values())
        assert not any((t == 1).all() for t in scales.values())
        report = json.loads((out / "report.json").read_text())
        unseen = {layer["name"] for block in report["blocks"] for layer in block["layers"] if "no calibration token chose" in layer["remark"]}
        assert unseen == {f"model.layers.{b}.mlp.experts.{e}.{p}_proj" for b in range(2) for e in range(4, 8) for p in ("gate", "up", "down")}


def test_f054_the_effective_table_is_printed_before_the_run(run, tiny_model, tmp_path):
    rules = json.dumps({"model.layers.1.mlp.up_proj": {"bits": 8}, r".*layers\.1\.mlp.*": {"sym": False}})
    done = quantize(run, tiny_model, tmp_path / "out", "--layer_config", rules)
    row = next(line for line in done.stdout.splitlines() if "layers.1.mlp.up_proj" in line)
    assert "W8A16" in row and " sym" in row and "asym" not in row
    row = next(line for line in done.stdout.splitlines() if "layers.1.mlp.down_proj" in line)
    assert "W4A16" in row and "asym" in row


@pytest.mark.parametrize("form,flags", [("auto_round", []), ("auto_gptq", []), ("auto_awq", ["--asym"])])
def test_f056_zero_tiny_and_outlying_groups(run, tiny_model, tmp_path, form, flags):
    shutil.copytree(tiny_model, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    weight = tensors["model.layers.0.mlp.down_proj.weight"]
    weight[0, :128], weight[1, :128], weight[2, 5] = 0, 1e-8, 3e4
    save_file(tensors, file, {"format": "pt"})
    quantize(run, tmp_path / "m", tmp_path / "out", "--format", form, *flags)
    run("convert", tmp_path / "out", "--to", "fp32", "--output", tmp_path / "dense")
    dense = load_file(tmp_path / "dense" / "model.safetensors")["model.layers.0.mlp.down_proj.weight"]
    assert (dense[0, :128] == 0).all() and torch.isfinite(dense).all()
    assert dense[1, :128].abs().max() <= 1e-6


@pytest.mark.parametrize("value,iters", [(float("nan"), 0), (float("inf"), 0), (float("nan"), 2)])
def test_f056_a_weight_that_is_not_finite_stops_the_run(run, tiny_model, tmp_path, value, iters):
    shutil.copytree(tiny_model, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.3.self_attn.v_proj.weight"][7, 9] = value
    save_file(tensors, file, {"format": "pt"})
    failed = quantize(run, tmp_path / "m", tmp_path / "out", "--iters", iters, "--nsamples", 4, "--seqlen", 32, "--batch_size", 2, status=1)
    assert "model.layers.3.self_attn.v_proj" in failed.stderr and not (tmp_path / "out").exists()


def test_f059_the_default_scope_is_the_linear_layers_of_the_blocks(run, tiny_moe, tmp_path):
    done = quantize(run, tiny_moe, tmp_path / "out")
    assert "all else stays as it is" in done.stdout
    before, after = load_file(tiny_moe / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    for name, tensor in before.items():
        if name.endswith("_proj.weight"):
            assert name not in after and name.replace(".weight", ".qweight") in after
        else:
            assert torch.equal(after[name], tensor), name


def test_f061_a_tied_head_is_written_once(run, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, file, {"format": "pt"})
    quantize(run, tmp_path / "m", tmp_path / "out")
    names = set(load_file(tmp_path / "out" / "model.safetensors"))
    assert "model.embed_tokens.weight" in names and "lm_head.weight" not in names
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is True


def test_f035_widths_that_no_kernel_takes_stay_plain_and_are_listed(run, tiny_model, tmp_path):
    import transformers
    from conftest import save_byte_tokenizer
    config = transformers.LlamaConfig(hidden_size=96, intermediate_size=200, num_hidden_layers=1, num_attention_heads=2,
                                      num_key_value_heads=1, head_dim=48, vocab_size=384, max_position_embeddings=64)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path / "m")
    save_byte_tokenizer(tmp_path / "m")
    done = quantize(run, tmp_path / "m", tmp_path / "out")
    assert "mlp.down_proj" in done.stdout and "[96, 200] is not a multiple of 32" in done.stdout
    found = schemes(run, tmp_path / "out")
    assert found["model.layers.0.mlp.down_proj"] == "BFloat16" and found["model.layers.0.self_attn.q_proj"].startswith("int4")
    recorded = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]["extra_config"]
    assert recorded["model.layers.0.mlp.down_proj"]["bits"] == 16
