"""quaver convert and quantize to GGUF: what is written opens again as the same model, and what became of the values is said."""
import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file


@pytest.fixture(scope="session")
def merging_model(tiny_model, tmp_path_factory):
    """The tiny model with one merge in its tokenizer; a GGUF without any is refused by readers."""
    folder = tmp_path_factory.mktemp("merging") / "model"
    shutil.copytree(tiny_model, folder)
    document = json.loads((folder / "tokenizer.json").read_text())
    document["model"]["vocab"].update({"<s>": 256, "</s>": 257, "\u0120t": 258})
    document["model"]["merges"] = [["\u0120", "t"]]
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="session")
def wide_untied(merging_model, tmp_path_factory):
    """A random 2-layer model whose rows fill blocks of 256, with a head of its own."""
    from transformers import LlamaConfig, LlamaForCausalLM
    folder = tmp_path_factory.mktemp("wide_untied") / "model"
    torch.manual_seed(5)
    config = LlamaConfig(hidden_size=256, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=384, max_position_embeddings=512, tie_word_embeddings=False, bos_token_id=256, eos_token_id=257)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    for file in merging_model.glob("tokenizer*.json"):
        shutil.copy(file, folder)
    return folder


def plain(run, model, out):
    run("convert", model, "--to", "fp32", "--output", out)
    return load_file(out / "model.safetensors")


def largest_error(a, b):
    assert a.keys() == b.keys()
    return max(((a[name] - b[name]).norm() / a[name].norm()).item() for name in a)


@pytest.mark.parametrize("mix,error", [("bf16", 0), ("f16", 1e-3), ("Q8_0", 0.01), ("q6_k", 0.03), ("Q4_1", 0.12), ("q4_0", 0.12),
                                       ("Q4_K_M", 0.12)])
def test_a_plain_model_becomes_a_gguf(run, merging_model, tmp_path, mix, error):
    done = run("convert", merging_model, "--to", f"gguf:{mix}", "-o", tmp_path / "m.gguf")
    counts = [int(count) for count in re.findall(r"(\d+) (?:matrices |)(?:with|rounded)", done.stdout.splitlines()[0])]
    assert f"m.gguf: gguf, {mix.upper()}: " in done.stdout and sum(counts) == 29, done.stdout
    assert ("in place of" in done.stdout) == (mix in ("q6_k", "Q4_K_M", "Q4_1", "q4_0"))  # rows of 128 don't fill 256
    ours, theirs = plain(run, merging_model, tmp_path / "a"), plain(run, tmp_path / "m.gguf", tmp_path / "b")
    assert largest_error(ours, theirs) <= error
    assert list(tmp_path.glob("*.partial")) == []


def test_a_written_gguf_answers(run, merging_model, serve, tmp_path):
    import urllib.request
    run("quantize", merging_model, "--iters", 0, "--format", "GGUF:q8_0", "--output_dir", tmp_path / "out")
    written = list((tmp_path / "out").iterdir())
    assert [path.name for path in written] == ["model-Q8_0.gguf"]
    answers = []
    for model in (merging_model, tmp_path / "out"):
        with serve(model) as (url, _, _):
            for route, body in (("/tokenize", {"prompt": "to the t\u00e9st"}), ("/v1/chat/completions", {
                    "messages": [{"role": "user", "content": "to the"}], "max_tokens": 4, "temperature": 0, "return_token_ids": True})):
                request = urllib.request.Request(url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
                answers.append(json.load(urllib.request.urlopen(request, timeout=120)))
    assert answers[0]["tokens"] == answers[2]["tokens"] and 258 in answers[0]["tokens"]
    assert answers[1]["usage"] == answers[3]["usage"]
    assert answers[1]["prompt_token_ids"] == answers[3]["prompt_token_ids"], "the chat template went along"


@pytest.mark.parametrize("flags,mix", [(["W4A16", "--group_size", 32], "q4_0"), (["W4A16"], "q4_0"), (["W2A16", "--group_size", 64], "q4_0"),
                                       (["W8A16", "--group_size", 32], "q8_0")])
def test_quantized_values_move_as_they_are(run, merging_model, tmp_path, flags, mix):
    folder = tmp_path / "a"
    run("quantize", "--model", merging_model, "--output_dir", folder, "--iters", 0, "--disable_opt_rtn", "--quiet", "--scheme", *flags)
    done = run("convert", folder, "--to", f"gguf:{mix}", "-o", tmp_path / "m.gguf")
    assert "28 matrices with the same values, 1 rounded" in done.stdout, done.stdout
    kept = run("convert", folder, "--to", "gguf", "-o", tmp_path / "kept.gguf")
    assert "as it was: 29 matrices with the same values" in kept.stdout
    run("convert", folder, "--to", "bf16", "--output", tmp_path / "plain")
    run("convert", tmp_path / "kept.gguf", "--to", "bf16", "--output", tmp_path / "back")
    ours, theirs = load_file(tmp_path / "plain" / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name].float(), theirs[name].float()) for name in ours)


def test_asymmetric_codes_stay(run, merging_model, tmp_path):
    run("quantize", "--model", merging_model, "--output_dir", tmp_path / "a", "--iters", 0, "--disable_opt_rtn", "--quiet", "--scheme", "W4A16",
        "--group_size", 32, "--asym")
    done = run("convert", tmp_path / "a", "--to", "gguf", "--scheme", "Q4_1", "-o", tmp_path / "m.gguf")
    assert "with the same codes, scales rounded to half precision" in done.stdout
    run("convert", tmp_path / "a", "--to", "gguf", "-o", tmp_path / "kept.gguf")  # code - zero point fits eight bits
    assert largest_error(plain(run, tmp_path / "a", tmp_path / "x"), plain(run, tmp_path / "kept.gguf", tmp_path / "y")) == 0


def test_values_that_no_type_holds_need_one_named(run, merging_model, tmp_path):
    run("quantize", "--model", merging_model, "--output_dir", tmp_path / "a", "--iters", 0, "--disable_opt_rtn", "--quiet", "--scheme",
        "FP8_DYNAMIC", "--format", "llm_compressor")
    done = run("convert", tmp_path / "a", "--to", "gguf", "-o", tmp_path / "kept.gguf", status=2)
    assert "no type of GGUF holds the values of 'model.layers.0." in done.stderr and not (tmp_path / "kept.gguf").exists()


def test_a_gguf_is_written_again_as_it_was(run, merging_model, tmp_path):
    run("convert", merging_model, "--to", "gguf:q4_0", "-o", tmp_path / "a.gguf")
    for flags in (["--to", "gguf"], ["--to", "gguf:Q4_0"]):
        done = run("convert", tmp_path / "a.gguf", *flags, "-o", tmp_path / "b.gguf", "--overwrite")
        assert "29 matrices copied as they were" in done.stdout
        rows = [json.loads(run("inspect", tmp_path / name, "--json").stdout) for name in ("a.gguf", "b.gguf")]
        assert rows[0]["linears"] == rows[1]["linears"]
    assert (tmp_path / "a.gguf").stat().st_size == (tmp_path / "b.gguf").stat().st_size


@pytest.mark.parametrize("target", ["auto_round", "auto_awq", "llm_compressor"])
def test_a_head_of_other_blocks_becomes_plain(run, wide_untied, tmp_path, target):
    """Q4_0 files have a Q6_K head, which no other format holds beside them; float32 holds its values."""
    run("convert", wide_untied, "--to", "gguf:q4_0", "-o", tmp_path / "m.gguf")
    done = run("convert", tmp_path / "m.gguf", "--to", target, "-o", tmp_path / "out")
    assert "the same values" in done.stdout
    assert f"layer 'lm_head', int6 in groups of 16, has no place in {target} beside" in done.stderr
    ours, theirs = plain(run, tmp_path / "m.gguf", tmp_path / "a"), plain(run, tmp_path / "out", tmp_path / "b")
    embedding = "model.embed_tokens.weight"  # read as bfloat16, as always
    ours[embedding] = ours[embedding].bfloat16().float()
    assert largest_error(ours, theirs) == 0
    assert load_file(tmp_path / "out" / "model.safetensors")["lm_head.weight"].dtype == torch.float32


def test_blocks_that_another_format_cant_hold_are_named(run, wide_untied, tmp_path):
    run("convert", wide_untied, "--to", "gguf:q4_k_m", "-o", tmp_path / "m.gguf")
    done = run("convert", tmp_path / "m.gguf", "--to", "auto_round", "-o", tmp_path / "out", status=2)
    assert "layer 'model.layers.0.mlp.down_proj' is int4 in groups of 32 with real minima, for which auto_round has no words" in done.stderr
    assert "--scheme NAME" in done.stderr and list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize("command,words", [
    (["convert", "--to", "gguf:q9", "-o", "OUT.gguf"], "a GGUF can be one of Q4_0"),
    (["convert", "--to", "gguf:q4_0", "-o", "OUT"], "must end in .gguf"),
    (["convert", "--to", "gguf:q4_0", "--scheme", "Q8_0", "-o", "OUT.gguf"], "names a type, and --scheme Q8_0 another"),
    (["convert", "--to", "gguf:q4_0", "--method", "autoround", "-o", "OUT.gguf"], "--method must be rtn"),
    (["quantize", "--format", "gguf:q4_0", "--output_dir", "OUT"], "give --iters 0"),
    (["quantize", "--format", "gguf", "--iters", 0, "--output_dir", "OUT"], "needs a type"),
    (["quantize", "--format", "gguf:q4_0", "--iters", 0, "--bits", 3, "--output_dir", "OUT"], "--bits has no effect"),
])
def test_wrong_usage(run, merging_model, tmp_path, command, words):
    arguments = [str(tmp_path / a) if str(a).startswith("OUT") else a for a in command]
    done = run(arguments[0], merging_model, *arguments[1:], status=2)
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_refused_model_leaves_no_folder(run, tiny_model, tmp_path):
    done = run("quantize", tiny_model, "--iters", 0, "--format", "gguf:q8_0", "--output_dir", tmp_path / "new" / "out", status=None)
    assert done.returncode != 0 and "has no merges" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_inspect_says_what_is_rounded(run, merging_model, tmp_path):
    run("convert", merging_model, "--to", "gguf:q4_0", "-o", tmp_path / "m.gguf")
    for flags, words in (([], "gguf"), (["-q", "int8"], "gguf, rounded to int8 while loading")):
        assert json.loads(run("inspect", tmp_path / "m.gguf", "--json", *flags).stdout)["format"] == words


def test_a_tokenizer_that_a_gguf_cant_tell(run, tiny_model, tmp_path):
    done = run("convert", tiny_model, "--to", "gguf:q8_0", "-o", tmp_path / "m.gguf", status=None)
    assert done.returncode != 0 and "has no merges, which a GGUF needs" in done.stderr
    assert list(tmp_path.iterdir()) == []
