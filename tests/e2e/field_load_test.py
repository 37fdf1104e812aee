"""Reported faults of loading, named by their ids: docs/field-cases.md."""
import json
import shutil
import time

import pytest
import torch
from packed_models import Packed, auto_round, awq, edit_config, gptq, pack_layer, write_packed
from safetensors.torch import load_file, save_file

ATTENTION = [f"model.layers.0.self_attn.{x}_proj" for x in "qkvo"]


def schemes(run, folder):
    return {row["name"]: row["storage"] for row in json.loads(run("inspect", folder, "--json").stdout)["linears"]}


def plain_ones(run, folder):
    return sorted(name for name, storage in schemes(run, folder).items() if not storage.startswith("int"))


def expect_weights(run, folder, linears, tmp_path):
    """What the program reads equals the format rule, bit for bit."""
    run("convert", folder, "--to", "fp32", "--output", tmp_path / "dense")
    dense = load_file(tmp_path / "dense" / "model.safetensors")
    for name, weight in linears.items():
        assert torch.equal(dense[name + ".weight"].double(), weight), name


@pytest.mark.parametrize("quantization,layout", [
    (gptq(modules_to_not_convert=ATTENTION), "gptq"),
    (awq(modules_to_not_convert=ATTENTION), "awq"),
    (auto_round(extra_config={name: {"bits": 16, "data_type": "float"} for name in ATTENTION}), "gptq"),
])
def test_f001_a_skip_list_names_the_parts_of_fused_layers(run, tiny_model, tmp_path, quantization, layout):
    linears = write_packed(tiny_model, tmp_path / "m", quantization,
                           lambda name: None if name in ATTENTION else Packed(layout=layout, sym=layout == "gptq"))
    assert plain_ones(run, tmp_path / "m") == sorted(ATTENTION)
    expect_weights(run, tmp_path / "m", linears, tmp_path)


def test_f002_a_skip_list_names_the_experts_of_one_layer(run, tiny_moe, tmp_path):
    skipped = [f"model.layers.0.mlp.experts.{e}.{p}_proj" for e in range(8) for p in ("gate", "up", "down")]
    linears = write_packed(tiny_moe, tmp_path / "m", awq(modules_to_not_convert=skipped + ["mlp.gate", "lm_head"]),
                           lambda name: None if name in skipped else Packed(layout="awq", sym=False))
    assert plain_ones(run, tmp_path / "m") == sorted(skipped)
    expect_weights(run, tmp_path / "m", linears, tmp_path)


SOME_EXPERTS = [f"model.layers.0.mlp.experts.{e}.{p}_proj" for e in (1, 6) for p in ("gate", "up", "down")]


@pytest.mark.parametrize("quantization,layout", [
    (awq(modules_to_not_convert=SOME_EXPERTS), "awq"),
    (gptq(dynamic={"-:" + name.replace(".", r"\."): {} for name in SOME_EXPERTS}), "gptq"),
    (auto_round(extra_config={name: {"bits": 16, "data_type": "float"} for name in SOME_EXPERTS}), "gptq"),
])
def test_f002_a_skip_list_names_some_experts_of_a_layer(run, tiny_moe, tmp_path, quantization, layout):
    linears = write_packed(tiny_moe, tmp_path / "m", quantization,
                           lambda name: None if name in SOME_EXPERTS else Packed(layout=layout, sym=layout == "gptq"))
    assert plain_ones(run, tmp_path / "m") == sorted(SOME_EXPERTS)
    expect_weights(run, tmp_path / "m", linears, tmp_path)
    answers = {run("generate", folder, "--prompt", "hello", "--max-tokens", 8, "--temperature", 0, "--dtype", "float32").stdout
               for folder in (tmp_path / "m", tmp_path / "dense")}
    assert len(answers) == 1


@pytest.mark.parametrize("skip", [["mlp.up", "lm_head"], None])
def test_f008_a_skip_list_matches_whole_components_or_is_absent(run, tiny_model, tmp_path, skip):
    quantization = awq(modules_to_not_convert=skip)
    linears = write_packed(tiny_model, tmp_path / "m", quantization, lambda name: Packed(layout="awq", sym=False))
    assert plain_ones(run, tmp_path / "m") == []
    answers = set()
    for kernels in ("int_a32_avx512,int_a32_avx2,plain_avx2", "int_a32_avx2,plain_avx2", "reference_scalar"):
        answers.add(run("generate", tmp_path / "m", "--prompt", "hello", "--max-tokens", 8, "--temperature", 0, "--dtype", "float32",
                        env={"QUAVER_KERNEL": kernels}).stdout)
    assert len(answers) == 1
    expect_weights(run, tmp_path / "m", linears, tmp_path)


@pytest.mark.parametrize("blocks", ["model.layers", ["model.layers"], "model.layers,model.other"])
def test_f009_the_block_list_has_three_spellings(run, tiny_model, tmp_path, blocks):
    write_packed(tiny_model, tmp_path / "m", auto_round(block_name_to_quantize=blocks), lambda name: Packed())
    assert plain_ones(run, tmp_path / "m") == []


def test_f011_mixed_widths_inside_a_fused_group(run, tiny_model, tmp_path):
    widths = {"model.layers.0.self_attn.k_proj": 8, "model.layers.0.self_attn.v_proj": 16, "model.layers.1.mlp.gate_proj": 2}
    rules = {name: {"bits": bits} for name, bits in widths.items()}
    linears = write_packed(tiny_model, tmp_path / "m", auto_round(extra_config=rules),
                           lambda name: None if widths.get(name) == 16 else Packed(bits=widths.get(name, 4)))
    found = schemes(run, tmp_path / "m")
    assert found["model.layers.0.self_attn.k_proj"].startswith("int8") and found["model.layers.1.mlp.gate_proj"].startswith("int2")
    expect_weights(run, tmp_path / "m", linears, tmp_path)


def test_f012_patterns_and_exact_names_of_extra_config(run, tiny_model, tmp_path):
    exact = "model.layers.1.mlp.down_proj"
    rules = {r".*layers\.0\..*": {"bits": 16, "data_type": "float"}, r".*layers\.1\..*": {"bits": 16},
             exact: {"bits": 8, "group_size": 32, "sym": False}}

    def plan(name):
        if name == exact:
            return Packed(bits=8, group=32, sym=False)
        return None if ".layers.0." in name or ".layers.1." in name else Packed()
    linears = write_packed(tiny_model, tmp_path / "m", auto_round(extra_config=rules), plan)
    found = schemes(run, tmp_path / "m")
    assert found[exact] == "int8 g32 asym" and found["model.layers.2.mlp.down_proj"].startswith("int4 g128")
    expect_weights(run, tmp_path / "m", linears, tmp_path)


def test_f015_the_embedding_takes_the_heads_place_only_when_told(run, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    edit_config(tmp_path / "m", tie_word_embeddings=False)
    ask = ["generate", tmp_path / "m", "--prompt", "hello", "--max-tokens", 6, "--temperature", 0]
    failed = run(*ask, status=1)
    assert "lm_head.weight" in failed.stderr and "tie_word_embeddings" in failed.stderr
    tied = run(*ask, "--tie-embeddings").stdout
    assert tied == run("generate", tiny_model, *ask[2:]).stdout


def test_f017_a_packed_head_wins_over_a_config_that_excludes_it(run, tiny_model, tmp_path):
    how = Packed(layout="awq", sym=False)
    head, dense = pack_layer("lm_head", 384, 128, how, 99)
    write_packed(tiny_model, tmp_path / "m", awq(modules_to_not_convert=["lm_head"]), lambda name: how, head)
    edit_config(tmp_path / "m", tie_word_embeddings=False)
    done = run("convert", tmp_path / "m", "--to", "fp32", "--output", tmp_path / "dense")
    assert "although 'lm_head' in the quantization settings asks for 16 bits" in done.stderr
    stored = load_file(tmp_path / "dense" / "model.safetensors")["lm_head.weight"]
    assert torch.equal(stored.double(), dense)


def split(folder):
    """Two shards with an index, in place of the one file."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in files.items():
        save_file({n: tensors[n] for n in part}, folder / file, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {n: file for file, part in files.items() for n in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return tensors


def test_f018_files_that_the_index_does_not_name_are_left_alone(run, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    tensors = split(tmp_path / "m")
    save_file({n: torch.zeros_like(t) for n, t in tensors.items()}, tmp_path / "m" / "consolidated.safetensors")
    done = run("convert", tmp_path / "m", "--to", "bf16", "--output", tmp_path / "out")
    assert "consolidated.safetensors" in done.stderr
    copied = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(copied[n], t) for n, t in tensors.items())


def test_f018_without_an_index_no_tensor_may_be_there_twice(run, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    split(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors.index.json").unlink()
    shutil.copy(tiny_model / "model.safetensors", tmp_path / "m" / "again.safetensors")
    failed = run("inspect", tmp_path / "m", status=1)
    assert "safetensors" in failed.stderr


def test_f023_draft_layers_behind_the_last_are_skipped_with_a_line(run, tiny_model, tmp_path):
    plain = load_file(tiny_model / "model.safetensors")
    extra = {n.replace("layers.3.", "layers.4."): t.clone() for n, t in plain.items() if ".layers.3." in n}
    linears = write_packed(tiny_model, tmp_path / "m", auto_round(), lambda name: Packed(), extra)
    failed = run("inspect", tmp_path / "m", status=1)
    assert "model.layers.4." in failed.stderr
    edit_config(tmp_path / "m", num_nextn_predict_layers=1)
    done = run("inspect", tmp_path / "m", "--json")
    assert "draft layers" in done.stderr and len(json.loads(done.stdout)["linears"]) == len(linears)


def test_f025_cache_scales_are_never_dropped_in_silence(run, tiny_model, tmp_path):
    extra = {"model.layers.0.self_attn.k_scale": torch.tensor(0.013)}
    write_packed(tiny_model, tmp_path / "m", gptq(), lambda name: Packed(), extra)
    assert "model.layers.0.self_attn.k_scale" in run("inspect", tmp_path / "m", status=1).stderr


def test_f026_experts_under_names_that_nobody_reads(run, tiny_moe, tmp_path):
    write_packed(tiny_moe, tmp_path / "m", gptq(), lambda name: Packed())
    file = tmp_path / "m" / "model.safetensors"
    tensors = {n: t for n, t in load_file(file).items() if ".experts." not in n}
    for layer in range(2):
        for part in ("packed", "scale", "shape"):
            tensors[f"model.layers.{layer}.mlp.experts.gate_up_proj_{part}"] = torch.zeros(4, 8, dtype=torch.int32)
    save_file(tensors, file, {"format": "pt"})
    assert "mlp.experts." in run("inspect", tmp_path / "m", status=1).stderr


def test_f030_the_first_rule_of_a_dynamic_table_wins(run, tiny_model, tmp_path):
    dynamic = {r"+:.*layers\.0\..*down_proj.*": {"bits": 8, "group_size": 64}, r"-:.*layers\.1\..*": {},
               r"+:.*layers\.0\..*": {"bits": 4, "group_size": 32}}

    def plan(name):
        if ".layers.0." in name:
            return Packed(bits=8, group=64) if "down" in name else Packed(group=32)
        return None if ".layers.1." in name else Packed()
    linears = write_packed(tiny_model, tmp_path / "m", gptq(dynamic=dynamic), plan)
    expect_weights(run, tmp_path / "m", linears, tmp_path)
    slow = {**{rf"+:model\.layers\.{i}\.never": {"bits": 8} for i in range(2000)}, **dynamic}
    before = time.monotonic()
    run("inspect", tmp_path / "m", "--json")
    short = time.monotonic() - before
    edit_config(tmp_path / "m", quantization_config=gptq(dynamic=slow))
    before = time.monotonic()
    run("inspect", tmp_path / "m", "--json", env={"QUAVER_LOG_LEVEL": "error"})
    assert time.monotonic() - before < short + 5  # the unit test holds the finer limit
    edit_config(tmp_path / "m", quantization_config=gptq(dynamic=dynamic, rotation="hadamard"))
    assert "rotation" in run("inspect", tmp_path / "m", status=1).stderr
