"""Experts that lie stacked in one tensor: quantized, converted and run layer by layer."""
import json

import pytest
import torch
from conftest import ROOT, save_byte_tokenizer
from safetensors.torch import load_file

PUBLISHED = ROOT / "tests/fixtures/checkpoints/transformers-mxfp4"


@pytest.fixture(scope="session")
def tiny_stacked(tmp_path_factory):
    """A random 2-layer mixture of 4 experts as Transformers saves it, with tensors for all experts of a layer."""
    from transformers import GptOssConfig, GptOssForCausalLM
    folder = tmp_path_factory.mktemp("tiny_stacked") / "model"
    torch.manual_seed(3)
    config = GptOssConfig(hidden_size=128, intermediate_size=96, num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2,
                          num_attention_heads=4, num_key_value_heads=2, head_dim=32, vocab_size=384, sliding_window=16,
                          max_position_embeddings=512, bos_token_id=256, eos_token_id=257)
    GptOssForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


def test_packed_stacks_become_plain_layers(run, tmp_path):
    run("convert", PUBLISHED, "--to", "fp32", "--output", tmp_path / "plain")
    tensors, expected = load_file(tmp_path / "plain/model.safetensors"), load_file(PUBLISHED / "expected.safetensors")
    compared = [name for name in expected if name.endswith(".weight")]
    assert len(compared) == 3 and all(torch.equal(tensors[n][:len(expected[n])], expected[n]) for n in compared)
    biases = load_file(PUBLISHED / "model.safetensors")["model.layers.1.mlp.experts.gate_up_proj_bias"].float()
    assert torch.equal(tensors["model.layers.1.mlp.experts.2.gate_proj.bias"], biases[2, ::2])
    assert torch.equal(tensors["model.layers.1.mlp.experts.2.up_proj.bias"], biases[2, 1::2])
    assert not [name for name in tensors if name.endswith(("_blocks", "_scales")) or "gate_up" in name]


def test_packed_stacks_move_to_another_format(run, tmp_path):
    done = run("convert", PUBLISHED, "--to", "llm_compressor", "--output", tmp_path / "moved")
    assert "the same values" in done.stdout
    for folder, out in [(PUBLISHED, "a"), (tmp_path / "moved", "b")]:
        run("convert", folder, "--to", "fp32", "--output", tmp_path / out)
    before, after = load_file(tmp_path / "a/model.safetensors"), load_file(tmp_path / "b/model.safetensors")
    assert before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)


def test_plain_stacks_are_quantized_and_run(run, tiny_stacked, tmp_path):
    out = tmp_path / "out"
    run("quantize", "--model", tiny_stacked, "--output_dir", out, "--scheme", "W4A16", "--group_size", 32, "--iters", 2,
        "--nsamples", 8, "--seqlen", 64, "--batch_size", 4, "--quiet")
    rows = {row["name"]: row["storage"] for row in json.loads(run("inspect", out, "--json").stdout)["linears"]}
    experts = [name for name in rows if ".experts." in name]
    assert len(experts) == 2 * 4 * 3 and all(rows[name].startswith("int4") for name in rows)
    names = load_file(out / "model.safetensors").keys()
    assert "model.layers.1.mlp.experts.3.up_proj.bias" in names and "model.layers.1.mlp.router.weight" in names
    answers = [run("generate", folder, "--prompt", "abc", "--max-tokens", 5, "--temperature", 0).stdout for folder in (tiny_stacked, out)]
    assert all(answers)
