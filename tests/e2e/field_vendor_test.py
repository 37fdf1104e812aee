"""Reported faults of loading what vendors' tools write, named by their ids: docs/field-cases.md."""
import json
import shutil

import pytest
import torch
from conftest import ROOT, save_byte_tokenizer
from safetensors import safe_open
from safetensors.torch import load_file, save_file

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints"
LAYER = "model.layers.0."
Q, K, V, DOWN = (LAYER + n for n in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.down_proj"))


class Folder:
    """A tool's folder, trimmed to one layer, made whole: tables of random numbers, a tokenizer, and what a test changes."""

    def __init__(self, fixture):
        source = FIXTURES / fixture
        self.config = json.loads((source / "config.json").read_text())
        self.older = source / "hf_quant_config.json"
        with safe_open(source / "model.safetensors", "pt") as file:
            self.metadata = file.metadata() or {}
            self.tensors = {n: file.get_tensor(n) for n in file.keys()}
        torch.manual_seed(3)
        hidden, vocab = self.config["hidden_size"], self.config["vocab_size"]
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            self.tensors.setdefault(name, torch.randn(vocab, hidden).to(torch.bfloat16))
        self.tensors.setdefault("model.norm.weight", torch.ones(hidden, dtype=torch.bfloat16))

    @property
    def settings(self):
        return self.config["quantization_config"]

    def write(self, path, second_shard=()):
        path.mkdir()
        save_byte_tokenizer(path)
        (path / "config.json").write_text(json.dumps(self.config))
        shards = {"model-00001-of-00002.safetensors": {n: t for n, t in self.tensors.items() if n not in second_shard},
                  "model-00002-of-00002.safetensors": {n: t for n, t in self.tensors.items() if n in second_shard}}
        if not second_shard:
            shards = {"model.safetensors": self.tensors}
        for file, tensors in shards.items():
            save_file(tensors, path / file, {"format": "pt", **self.metadata})
        if second_shard:
            index = {n: file for file, tensors in shards.items() for n in tensors}
            (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
        return path


def dense(run, folder, out):
    run("convert", folder, "--to", "fp32", "--output", out)
    return load_file(out / "model.safetensors")


def schemes(run, folder):
    return {row["name"]: row["storage"] for row in json.loads(run("inspect", folder, "--json").stdout)["linears"]}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


def test_f006_exclusions_are_globs_and_stand_in_either_file(run, tmp_path):
    excluded = ["lm_head*", "*.self_attn.q_proj", "mtp*"]
    both = Folder("modelopt-fp8-pc-pt")
    rows = both.tensors[Q + ".weight"].float() * both.tensors.pop(Q + ".weight_scale").float().reshape(-1, 1)
    both.tensors[Q + ".weight"] = rows.to(torch.bfloat16)
    both.settings["ignore"] = excluded
    newer = both.write(tmp_path / "newer")
    older_settings = json.loads(both.older.read_text())
    older_settings["quantization"]["exclude_modules"] = excluded
    del both.config["quantization_config"]
    older = both.write(tmp_path / "older")
    (older / "hf_quant_config.json").write_text(json.dumps(older_settings))
    assert schemes(run, newer) == schemes(run, older)
    assert schemes(run, newer)[Q] != schemes(run, newer)[K]
    older_settings["quantization"]["exclude_modules"] = excluded + ["*.k_proj"]
    (newer / "hf_quant_config.json").write_text(json.dumps(older_settings))
    done = run("inspect", newer, "--json")
    assert "'ignore' differs from 'exclude_modules' in hf_quant_config.json; 'ignore' counts" in done.stderr


def test_f016_a_tied_model_whose_head_is_excluded_answers_from_the_embedding(run, tmp_path):
    folder = Folder("modelopt-fp8-pc-pt")
    folder.config["tie_word_embeddings"] = True
    folder.tensors["lm_head.weight"] = folder.tensors["model.embed_tokens.weight"].clone()
    ask = ("--prompt", "hello", "--max-tokens", 6, "--temperature", 0)
    untied = Folder("modelopt-fp8-pc-pt")
    untied.tensors["lm_head.weight"] = folder.tensors.pop("lm_head.weight")
    assert (run("generate", folder.write(tmp_path / "tied"), *ask).stdout
            == run("generate", untied.write(tmp_path / "untied"), *ask).stdout)


@pytest.mark.parametrize("fixture", ["torchao-int8wo", "torchao-intx-int4-g32"])
def test_f020_parts_of_one_tensor_may_stand_in_two_shards(run, tmp_path, fixture):
    whole = Folder(fixture).write(tmp_path / "one")
    scales = {n for n in Folder(fixture).tensors if n.endswith("_scale") or n.endswith("_zero_point")}
    assert scales
    parted = Folder(fixture).write(tmp_path / "two", second_shard=scales)
    assert same(dense(run, whole, tmp_path / "a"), dense(run, parted, tmp_path / "b"))


def test_f021_null_in_the_map_of_modules_means_plain(run, tmp_path):
    folder = Folder("torchao-fqn-to-config")
    table = folder.settings["quant_type"]["default"]["_data"]["fqn_to_config"]
    assert table["_default"] is None
    table.update({"lm_head": None, K: None, "visual.blocks.0.attn.qkv": None})
    found = schemes(run, folder.write(tmp_path / "m"))
    assert found[Q].startswith("int8") and found[DOWN].startswith("int4") and not found[K].startswith("int")


def test_f022_scales_have_two_names(run, tmp_path):
    newer = Folder("quark-mxfp4")
    older = Folder("quark-mxfp4")
    older.tensors = {n.replace("down_proj.weight_scale", "down_proj.weight_quantizer.scale"): t for n, t in older.tensors.items()}
    assert same(dense(run, newer.write(tmp_path / "a"), tmp_path / "da"), dense(run, older.write(tmp_path / "b"), tmp_path / "db"))
    older.tensors[DOWN + ".weight_quantizer.scale"] = older.tensors[DOWN + ".weight_quantizer.scale"][:, :1].clone()
    failed = run("inspect", older.write(tmp_path / "c"), status=1)
    assert DOWN in failed.stderr and "[128, 1]" in failed.stderr


def test_f025_a_cache_without_scales_is_kept_as_it_is_and_said(run, tmp_path):
    folder = Folder("ct-fp8-static-kv-fp8")
    with_scales = run("inspect", folder.write(tmp_path / "with"), "--json")
    assert "asks for keys and values in 8 bits" in with_scales.stderr and "no scales" not in with_scales.stderr
    folder.tensors = {n: t for n, t in folder.tensors.items() if not n.endswith((".k_scale", ".v_scale"))}
    without = run("inspect", folder.write(tmp_path / "without"), "--json")
    assert without.stderr.count("brings no scales for them; they are kept as they are computed") == 1


def test_f025_scales_of_the_cache_are_in_use(run, tmp_path):
    answers = []
    for i, factor in enumerate((1, 1000)):
        folder = Folder("ct-fp8-static-kv-fp8")
        for name in folder.tensors:
            if name.endswith((".k_scale", ".v_scale")):
                folder.tensors[name] = folder.tensors[name] * factor  # all but the largest become 0
        text = tmp_path / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog " * 8)
        done = run("eval", folder.write(tmp_path / str(i)), "--text", text, "--seqlen", 64, "--tokens", 128, "--json")
        answers.append(json.loads(done.stdout)["perplexity"])
    assert answers[0] != answers[1]


def test_f036_zero_points_run_along_the_output_and_are_never_guessed(run, tmp_path):
    folder = Folder("ct-w4a16-g128-asym")
    name = next(n for n in sorted(folder.tensors) if n.endswith(".weight_zero_point"))
    layer = name.removesuffix(".weight_zero_point")
    packed, zeros = folder.tensors[layer + ".weight_packed"], folder.tensors[name]
    shape = folder.tensors[layer + ".weight_shape"].tolist()
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    codes = (packed.unsqueeze(-1) >> shifts & 15).flatten(1)[:, :shape[1]]
    zero = (zeros.unsqueeze(1) >> shifts.view(1, -1, 1) & 15).flatten(0, 1)[:shape[0]]
    scale = folder.tensors[layer + ".weight_scale"].float()
    group = torch.arange(shape[1]) // 128
    due = (codes - zero[:, group]).float() * scale[:, group]
    found = dense(run, folder.write(tmp_path / "m"), tmp_path / "d")[layer + ".weight"]
    assert torch.equal(found, due)
    del folder.tensors[name]
    failed = run("inspect", folder.write(tmp_path / "n"), status=1)
    assert "weight_zero_point" in failed.stderr and layer in failed.stderr


def test_f039_parts_of_a_fused_layer_keep_their_own_scales(run, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "static"}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    tensors, due = load_file(tiny_model / "model.safetensors"), {}
    torch.manual_seed(4)
    for name in [n for n in tensors if n.endswith("_proj.weight")]:
        scale = {"q": 0.001, "k": 0.02, "v": 0.3}.get(name[-13], 0.01)
        codes = (torch.randn(tensors[name].shape) * 60).to(torch.float8_e4m3fn)
        tensors[name] = codes
        tensors[name.replace(".weight", ".weight_scale")] = torch.tensor(scale)
        tensors[name.replace(".weight", ".input_scale")] = torch.tensor(scale * 3)
        due[name] = codes.float() * torch.tensor(scale)
    save_file(tensors, tmp_path / "m" / "model.safetensors", {"format": "pt"})
    found = dense(run, tmp_path / "m", tmp_path / "d")
    assert len(due) == 28 and all(torch.equal(found[n], due[n]) for n in due)


def test_f051_input_scales_are_equal_inside_a_fused_group_and_across_experts(run, tiny_moe, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("some words that are different every time, like 1234 and 5678. " * 40)
    run("quantize", "--model", tiny_moe, "--scheme", "FP8_STATIC", "--iters", 0, "--disable_opt_rtn", "--format", "llm_compressor",
        "--dataset", text, "--nsamples", 4, "--seqlen", 64, "--output_dir", tmp_path / "out", "--quiet")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    for layer in range(2):
        scale = lambda name: tensors[f"model.layers.{layer}.{name}.input_scale"].item()
        assert len({scale(f"self_attn.{x}_proj") for x in "qkv"}) == 1
        assert len({scale(f"mlp.experts.{e}.{x}_proj") for e in range(8) for x in ("gate", "up")}) == 1
        assert len({scale(f"mlp.experts.{e}.down_proj") for e in range(8)}) == 1
