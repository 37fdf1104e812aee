"""Reported faults of packing, scales and precision, named by their ids: docs/field-cases.md."""
import json

import pytest
import torch
from packed_models import Packed, gptq, write_packed
from safetensors.torch import load_file, save_file


def dense_of(run, folder, tmp_path):
    run("convert", folder, "--to", "fp32", "--output", tmp_path / "dense")
    return load_file(tmp_path / "dense" / "model.safetensors")


def expect_weights(run, folder, linears, tmp_path):
    dense = dense_of(run, folder, tmp_path)
    for name, weight in linears.items():
        assert torch.equal(dense[name + ".weight"].double(), weight), name


@pytest.mark.parametrize("sym", [True, False])
def test_f031_three_bits_span_words(run, tiny_model, tmp_path, sym):
    linears = write_packed(tiny_model, tmp_path / "m", gptq(bits=3, sym=sym), lambda name: Packed(bits=3, sym=sym))
    stored = load_file(tmp_path / "m" / "model.safetensors")
    assert stored["model.layers.0.mlp.down_proj.qweight"].shape == (24, 128)
    expect_weights(run, tmp_path / "m", linears, tmp_path)


@pytest.mark.parametrize("label,stored_offset,sym", [("gptq", 1, True), ("gptq_v2", 0, True), ("gptq", 0, True), (None, 1, True),
                                                     ("gptq", 1, False), ("gptq_v2", 0, False)])
def test_f032_zero_points_under_every_label(run, tiny_model, tmp_path, label, stored_offset, sym):
    linears = write_packed(tiny_model, tmp_path / "m", gptq(checkpoint_format=label, sym=sym),
                           lambda name: Packed(zero_offset=stored_offset, sym=sym))
    expect_weights(run, tmp_path / "m", linears, tmp_path)


@pytest.mark.parametrize("desc_act", [True, False])
def test_f034_activation_order_is_obeyed_whatever_the_flag_says(run, tiny_model, tmp_path, desc_act):
    linears = write_packed(tiny_model, tmp_path / "m", gptq(desc_act=desc_act, group_size=32), lambda name: Packed(group=32))
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    for name, weight in linears.items():
        order = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(7))
        scales = tensors[name + ".scales"].double()
        old, new = torch.arange(weight.shape[1]) // 32, order // 32
        linears[name] = torch.round(weight / scales[old].T) * scales[new].T
        tensors[name + ".g_idx"] = new.to(torch.int32)
    save_file(tensors, file, {"format": "pt"})
    expect_weights(run, tmp_path / "m", linears, tmp_path)


def test_f035_a_short_last_group(run, tiny_model, tmp_path):
    """256 input rows in groups of 96 leave a last one of 64; rows of 128 leave 32."""
    linears = write_packed(tiny_model, tmp_path / "m", gptq(group_size=96), lambda name: Packed(group=96))
    expect_weights(run, tmp_path / "m", linears, tmp_path)


def overflowing(tiny_model, folder):
    """down_proj answers far above what half precision holds."""
    big = ".mlp.down_proj.scales"
    write_packed(tiny_model, folder, gptq(), lambda name: Packed())
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name in tensors:
        if name.endswith(".scales"):
            tensors[name] = torch.full_like(tensors[name], 6e4 if name.endswith(big) else 50)
    save_file(tensors, file, {"format": "pt"})


def test_f042_half_precision_that_overflows_is_an_error_and_no_exclamation_mark(run, tiny_model, tmp_path):
    overflowing(tiny_model, tmp_path / "m")
    ask = ["generate", tmp_path / "m", "--prompt", "hello", "--max-tokens", 4, "--temperature", 0]
    failed = run(*ask, "--dtype", "float16", status=1)
    assert "not finite" in failed.stderr or "NaN" in failed.stderr
    run(*ask)
    run(*ask, "--dtype", "bfloat16")


@pytest.mark.parametrize("hidden", [24, 40, 104])
def test_f043_sizes_that_fill_no_vector(run, tmp_path, hidden):
    import transformers
    from conftest import save_byte_tokenizer
    torch.manual_seed(3)
    config = transformers.LlamaConfig(hidden_size=hidden, intermediate_size=hidden * 2 + 5, num_hidden_layers=2, num_attention_heads=2,
                                      num_key_value_heads=1, vocab_size=384, max_position_embeddings=64, head_dim=10)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "m")
    save_byte_tokenizer(tmp_path / "m")
    prompt = "sizes"
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")(prompt, return_tensors="pt").input_ids
    with torch.no_grad():
        best = model(ids).logits[0, -1, :256].argmax().item()
        top = model(ids).logits[0, -1].argmax().item()
    kernels = {row["kernel"] for row in json.loads(run("inspect", tmp_path / "m", "--json").stdout)["linears"]}
    assert kernels and "" not in kernels
    answer = run("generate", tmp_path / "m", "--prompt", prompt, "--max-tokens", 1, "--temperature", 0, "--dtype", "float32").stdout
    if top == best:
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
        assert answer.rstrip("\n") == tokenizer.decode([top]).rstrip("\n")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_f056_a_scale_that_is_not_finite_stops_the_load(run, tiny_model, tmp_path, value):
    write_packed(tiny_model, tmp_path / "m", gptq(), lambda name: Packed())
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.2.mlp.up_proj.scales"][0, 5] = value
    save_file(tensors, file, {"format": "pt"})
    assert "model.layers.2.mlp.up_proj" in run("inspect", tmp_path / "m", status=1).stderr
