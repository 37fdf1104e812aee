"""quaver quantize and inspect with a picture pipeline: the folder written draws, and says what it is."""
import json
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

MODEL = ROOT / "models" / "shapes-flux"
PROMPT = "a red circle on a white background"


@pytest.fixture(scope="module")
def quantized(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("pictures") / "w4"
    done = run("quantize", MODEL, "--scheme", "W4A16", "--group_size", 64, "--iters", 2, "--nsamples", 2, "--calib_samples", 4,
               "--num_inference_steps", 4, "--width", 64, "--height", 64, "--max_sequence_length", 32, "--output_dir", out)
    assert "4 inputs of the first block from 2 captions, 4 steps each" in done.stdout
    assert "66 of 66 linear layers of the blocks are quantized" in done.stdout
    return out


def test_quantized_folder_draws(run, quantized, tmp_path):
    for model, name in ((quantized, "a.png"), (MODEL, "b.png")):
        run("generate", model, "--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", 2, "-o", tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


def test_f119_only_the_transformer_changes(quantized):
    for file in MODEL.rglob("*"):
        part = file.relative_to(MODEL)
        if file.is_file() and part.parts[0] != "transformer":
            assert (quantized / part).read_bytes() == file.read_bytes(), part
    config = json.loads((quantized / "transformer" / "config.json").read_text())["quantization_config"]
    assert config["block_name_to_quantize"] == "transformer_blocks,single_transformer_blocks"


@pytest.fixture(scope="module")
def with_encoders(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("pictures") / "w4-encoders"
    done = run("quantize", MODEL, "--scheme", "W4A16", "--quantize_text_encoder", "--iters", 0, "--disable_opt_rtn", "--output_dir", out)
    assert "99 of 99 linear layers of the blocks are quantized" in done.stdout
    return out


def test_text_encoders_are_quantized_where_asked(run, with_encoders):
    facts = json.loads(run("inspect", with_encoders, "--json").stdout)
    assert {name: part["format"] for name, part in facts["components"].items()} == {
        "text_encoder": "auto_round", "text_encoder_2": "auto_round", "transformer": "auto_round", "vae": "plain"}
    for part, block in (("text_encoder", "text_model.encoder.layers,encoder.layers"), ("text_encoder_2", "encoder.block")):
        config = json.loads((with_encoders / part / "config.json").read_text())["quantization_config"]
        assert config["block_name_to_quantize"] == block and config["bits"] == 4
        assert json.loads((with_encoders / part / "quantization_config.json").read_text()) == config
    report = json.loads((with_encoders / "report.json").read_text())
    assert [block["index"] for block in report["blocks"]] == list(range(12))
    names = [layer["name"] for block in report["blocks"] for layer in block["layers"]]
    assert "text_encoder.text_model.encoder.layers.1.mlp.fc2" in names and len(names) == 99


def test_the_folder_weighs_what_its_shapes_say(with_encoders):
    said = subprocess.run([sys.executable, ROOT / "bench" / "checkpoint_sizes.py", MODEL], capture_output=True, text=True, check=True).stdout
    weighs = subprocess.run([sys.executable, ROOT / "bench" / "checkpoint_sizes.py", MODEL, with_encoders], capture_output=True, text=True,
                            check=True).stdout
    assert said == weighs
    real = subprocess.run([sys.executable, ROOT / "bench" / "checkpoint_sizes.py", "--flux1-dev"], capture_output=True, text=True, check=True).stdout
    shares = {line.split()[0]: float(line.split()[-1]) for line in real.splitlines()[1:]}
    assert shares["transformer"] <= 0.28 and shares["folder"] <= 0.32


def test_quantized_text_encoders_draw_almost_the_same(run, with_encoders, tmp_path):
    run("compare", "--task", "t2i", "--reference-model", MODEL, "--candidate-model", with_encoders, "--prompt", PROMPT, "--prompt",
        "a green square left of a blue star on a black background", "--size", "64x64", "--num-inference-steps", 4, "--quiet", "--min-psnr", 22)


def test_settings_at_the_root_count_too(run, quantized, tmp_path):
    moved = shutil.copytree(quantized, tmp_path / "moved")
    config = json.loads((moved / "transformer" / "config.json").read_text())
    (moved / "quantization_config.json").write_text(json.dumps(config.pop("quantization_config")))
    (moved / "transformer" / "config.json").write_text(json.dumps(config))
    (moved / "transformer" / "quantization_config.json").unlink()
    for model, name in ((quantized, "a.png"), (moved, "b.png")):
        run("generate", model, "--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", 2, "--seed", 1, "-o", tmp_path / name)
    with open(tmp_path / "a.png", "rb") as a, open(tmp_path / "b.png", "rb") as b:
        from PIL import Image
        assert Image.open(a).tobytes() == Image.open(b).tobytes()


def test_inspect_lists_components_and_layers(run, quantized):
    facts = json.loads(run("inspect", quantized, "--json").stdout)
    assert facts["pipeline"] == "FluxPipeline"
    assert {name: part["format"] for name, part in facts["components"].items()} == {
        "text_encoder": "plain", "text_encoder_2": "plain", "transformer": "auto_round", "vae": "plain"}
    assert len(facts["linears"]) == 66 and all(layer["storage"] == "int4 g64 sym" for layer in facts["linears"])
    text = run("inspect", MODEL, "--quantization", "fp8").stdout
    assert "10 layers BFloat16" in text and "56 layers e4m3fn per row" in text


def test_flags_of_the_other_kind_are_refused(run, tmp_path):
    for flags in (["--seqlen", 64], ["--quant_lm_head"], ["--kv_cache_dtype", "fp8"], ["--avg_bits", 3]):
        done = run("quantize", MODEL, "--iters", 0, *flags, "--output_dir", tmp_path / "q", status=None)
        assert done.returncode in (1, 2) and flags[0] in done.stderr, done.stderr
        assert not (tmp_path / "q").exists()


def test_commands_of_language_models_say_what_the_folder_is(run, tmp_path):
    for command in (["chat"], ["bench"], ["eval", "--text", __file__], ["convert", "--output_dir", tmp_path / "c"]):
        done = run(command[0], MODEL, *command[1:], status=None)
        assert done.returncode != 0 and "holds a pipeline that makes pictures" in done.stderr, (command, done.stderr)
    done = run("inspect", MODEL / "transformer", status=None)
    assert "one component of a pipeline" in done.stderr and "FluxTransformer2DModel" in done.stderr


def test_sizes_of_the_calibration_are_not_rounded(run, tmp_path):
    done = run("quantize", MODEL, "--iters", 1, "--width", 100, "--output_dir", tmp_path / "q", status=2)
    assert "multiples of 16, got 100" in done.stderr
    assert not (tmp_path / "q").exists()
