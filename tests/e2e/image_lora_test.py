"""LoRA files: drawn with, served, picked by requests, compared; over plain and rounded weights."""
import base64
import json
import shutil
import urllib.request

import pytest
from conftest import ROOT
from image_models import edit, form, png, post, PROMPT, SHAPES
from PIL import Image

LORAS = ROOT / "tests" / "golden" / "lora"
STYLE, FORM = LORAS / "shapes-style.safetensors", LORAS / "shapes-form.safetensors"
FAST = ["--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", 2, "--max-sequence-length", 32, "--seed", 7, "--quiet"]


@pytest.fixture(scope="module")
def draw(run, tmp_path_factory):
    """The pixels and the text of a picture drawn with these flags; each is drawn once."""
    folder, drawn = tmp_path_factory.mktemp("pictures"), {}

    def call(*flags):
        if flags not in drawn:
            path = folder / f"{len(drawn)}.png"
            run("generate", SHAPES, *FAST, "-o", path, *flags)
            picture = Image.open(path)
            drawn[flags] = (picture.convert("RGB").tobytes(), dict(picture.text))
        return drawn[flags]
    return call


def test_a_picture_says_which_adapters_made_it(draw):
    plain, text = draw()
    assert "lora" not in text
    style, text = draw("--lora", f"{STYLE}:0.5")
    assert text["lora"] == "shapes-style:0.5" and style != plain
    both, text = draw("--lora", f"{STYLE}:0.5", "--lora", FORM)
    assert text["lora"] == "shapes-style:0.5, shapes-form:1" and both not in (style, plain)
    assert draw("--lora-path", STYLE, "--lora-scale", 0.5)[0] == style
    nothing, text = draw("--lora", f"{STYLE}:0")
    assert nothing == plain and "lora" not in text


def test_over_weights_that_are_rounded_while_loading(draw):
    rounded = draw("--quantization", "int4")[0]
    assert draw("--quantization", "int4", "--lora", STYLE)[0] not in (rounded, draw("--lora", STYLE)[0])


@pytest.mark.parametrize("flag", ["--tensor-parallel-size", "--ulysses-degree"])
def test_ranks_compute_their_share_of_an_adapter(draw, flag):
    alone, shared = (draw("--lora", STYLE, *flags)[0] for flags in ((), (flag, 2)))
    assert max(abs(a - b) for a, b in zip(alone, shared, strict=True)) <= 1  # of 255; sums in another order


def test_what_is_no_lora_of_this_model_is_one_sentence(run, tmp_path):
    pickle = tmp_path / "style.safetensors"
    pickle.write_bytes(b"PK\x03\x04 not a safetensors file")
    for flags, words in [(["--lora", LORAS / "kohya.safetensors"], "kohya.safetensors: tensor '"),
                         (["--lora", pickle], "style.safetensors: is a pickle"),
                         (["--lora", "none.safetensors:0.5"], "none.safetensors: does not exist"),
                         (["--lora-scale", "2"], "--lora-scale needs --lora-path")]:
        done = run("generate", SHAPES, *FAST, "-o", tmp_path / "x.png", *flags, status=None)
        assert done.returncode != 0 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.fixture(scope="module")
def base(serve):
    with serve(SHAPES, "--lora-modules", f"style={STYLE}", f"form={FORM}", "--served-model-name", "shapes", "--max-num-seqs", 2,
               "--disable-access-log") as (url, process, lines):
        yield url


def served(base, **fields):
    status, body = post(base + "/v1/images/generations", {"prompt": PROMPT, "size": "64x64", "num_inference_steps": 2, "seed": 7,
                                                          "max_sequence_length": 32, **fields})
    assert status == 200, body
    return base64.b64decode(body["data"][0]["b64_json"])


def pixels(data, tmp_path):
    path = tmp_path / "served.png"
    path.write_bytes(data)
    return Image.open(path).convert("RGB").tobytes()


def test_requests_pick_an_adapter(base, draw, tmp_path):
    assert pixels(served(base), tmp_path) == draw()[0]
    assert pixels(served(base, lora={"name": "style", "scale": 0.5}), tmp_path) == draw("--lora", f"{STYLE}:0.5")[0]
    assert pixels(served(base, lora={"local_path": str(FORM)}), tmp_path) == draw("--lora", FORM)[0]
    assert pixels(served(base, lora={"adapter": "style", "lora_scale": 0}), tmp_path) == draw()[0]
    status, body = edit(base, {"prompt": PROMPT, "num_inference_steps": 2, "lora": json.dumps({"name": "style"})}, ("image", png(64, 64)))
    assert status == 200, body


def test_requests_name_no_files_and_no_strangers(base, tmp_path):
    copy = shutil.copy(STYLE, tmp_path / "style.safetensors")
    for lora in ({"name": "glow"}, {"name": "style", "path": str(copy)}, {"path": "/etc/passwd"}, {"name": "style", "scale": 1000}):
        status, body = post(base + "/v1/images/generations", {"prompt": PROMPT, "lora": lora})
        assert status == 400 and body["error"]["param"] == "body.lora", body
        assert "passwd" not in body["error"]["message"]


def test_the_models_page_lists_the_adapters(base):
    model = json.load(urllib.request.urlopen(base + "/v1/models"))["data"][0]
    assert model["image_generation"]["adapters"] == [{"name": name, "scale": 1, "always": False} for name in ("style", "form")]


def test_compare_takes_an_adapter_on_one_side(run, tmp_path):
    report = tmp_path / "report.json"
    run("compare", "--model", SHAPES, "--candidate-lora", f"{STYLE}:0.5", "--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", 2,
        "--max-sequence-length", 32, "--quiet", "--output-json", report)
    out = json.loads(report.read_text())
    assert f"{STYLE}:0.5" in json.dumps(out)
