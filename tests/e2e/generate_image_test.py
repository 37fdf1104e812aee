"""quaver generate with a model of pictures: files, formats, metadata, seeds, sources, previews, Ctrl-C."""
import base64
import io
import os
import pty
import re
import signal
import subprocess
import time

import pytest
from PIL import Image, ImageDraw

from conftest import ROOT

MODEL = ROOT / "models" / "shapes-flux"
PROMPT = "a red circle on a white background"
FAST = ["--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", "2"]


def pixels(path):
    return Image.open(path).convert("RGB").tobytes()


def test_png_says_how_it_was_made(run, tmp_path):
    out = tmp_path / "cat.png"
    done = run("generate", MODEL, *FAST, "--seed", 7, "--guidance-scale", 3, "-o", out)
    assert done.stdout == f"{out}  seed 7\n"
    assert "s/step" in done.stderr
    with Image.open(out) as picture:
        assert picture.size == (64, 64)
        text = dict(picture.text)
    digest = text.pop("model_hash")
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert text.pop("Software").startswith("quaver ")
    assert text == {"prompt": PROMPT, "seed": "7", "num_inference_steps": "2", "guidance_scale": "3", "size": "64x64",
                    "model": "shapes-flux"}
    assert os.listdir(tmp_path) == ["cat.png"]


def test_seeds_of_several_pictures(run, tmp_path):
    done = run("generate", MODEL, *FAST, "--seed", 7, "-n", 2, "--quiet", "-o", tmp_path / "cat.png")
    assert done.stdout.split() == [str(tmp_path / "cat-0.png"), str(tmp_path / "cat-1.png")]
    assert done.stderr == ""
    run("generate", MODEL, *FAST, "--seed", 8, "-o", tmp_path / "alone.png")
    assert pixels(tmp_path / "cat-1.png") == pixels(tmp_path / "alone.png")
    assert pixels(tmp_path / "cat-0.png") != pixels(tmp_path / "alone.png")


@pytest.mark.parametrize("ending, kind", [("jpg", "JPEG"), ("webp", "WEBP")])
def test_the_ending_is_the_format_and_files_are_replaced(run, tmp_path, ending, kind):
    out = tmp_path / f"cat.{ending}"
    out.write_text("old")
    run("generate", MODEL, *FAST, "-o", out)
    assert Image.open(out).format == kind


@pytest.fixture(scope="module")
def drawing(tmp_path_factory):
    """A picture of the kind that the model knows, and masks that are all black and all white."""
    folder = tmp_path_factory.mktemp("drawing")
    picture = Image.new("RGB", (64, 64), (250, 250, 250))
    ImageDraw.Draw(picture).ellipse((20, 20, 44, 44), fill=(220, 40, 40))
    picture.save(folder / "source.png")
    for name, grey in (("black", 0), ("white", 255)):
        Image.new("L", (64, 64), grey).save(folder / f"{name}.png")
    return folder


def distance(a, b):
    a, b = pixels(a), pixels(b)
    return sum(abs(x - y) for x, y in zip(a, b)) / len(a)


def test_black_of_a_mask_is_kept_and_white_is_drawn_anew(run, tmp_path, drawing):
    flags = ["--prompt", "a green square on a black background", "--image", drawing / "source.png", "--strength", 1, "--seed", 1,
             "--num-inference-steps", 4]
    for name in ("black", "white"):
        run("generate", MODEL, *flags, "--mask-image", drawing / f"{name}.png", "-o", tmp_path / f"{name}.png")
    assert Image.open(tmp_path / "black.png").text["strength"] == "1"
    assert distance(tmp_path / "black.png", drawing / "source.png") < 6  # what the autoencoder loses
    assert distance(tmp_path / "white.png", drawing / "source.png") > 60


def test_strength_says_how_much_of_a_picture_changes(run, tmp_path, drawing):
    far = {}
    for strength in (0.1, 0.9):
        run("generate", MODEL, "--prompt", "a green square on a black background", "--image", drawing / "source.png", "--strength",
            strength, "--seed", 1, "--num-inference-steps", 10, "-o", tmp_path / "out.png")
        far[strength] = distance(tmp_path / "out.png", drawing / "source.png")
    assert far[0.1] < far[0.9] / 2, far


def test_what_a_prompt_loses_and_what_has_no_effect_is_told(run, tmp_path):
    done = run("generate", MODEL, *FAST, "--max-sequence-length", 4, "--negative-prompt", "noise", "-o", tmp_path / "a.png")
    assert "4 tokens" in done.stderr
    assert "negative_prompt has no effect: it needs true_cfg_scale above 1" in done.stderr


@pytest.mark.parametrize("flags, words", [
    (["-o", "a.bmp"], "expected a picture format out of png, jpeg, jpg, webp, got 'bmp' as its ending"),
    (["--size", "100"], "--size is '100', expected WIDTHxHEIGHT"),
    (["--size", "64x64", "--width", "128"], "--width or --height says otherwise"),
    (["--size", "100x64"], "size is 100x64, expected multiples of 16 such as 96x64 or 112x64"),
    (["--max-tokens", "3"], "--max-tokens is for models of text"),
    (["--seed", "-1"], "--seed is -1, expected 0 or more"),
    (["-n", "0"], "--num-images-per-prompt is 0, expected 1 or more"),
    (["--strength", "0.5"], "strength needs an image to start from"),
    (["--cache", "magic"], "there is no step cache 'magic'"),
])
def test_mistakes_are_told_and_leave_no_file(run, tmp_path, flags, words):
    done = run("generate", MODEL, "--prompt", PROMPT, "--output", tmp_path / "a.png", *flags, status=2)
    assert words in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_text_model_refuses_picture_flags(run, tiny_model):
    done = run("generate", tiny_model, "--prompt", "a", "--size", "64x64", status=2)
    assert "--size is for models of pictures" in done.stderr


def test_ctrl_c_ends_between_steps_and_leaves_no_file(binary, tmp_path):
    process = subprocess.Popen([binary, "generate", MODEL, "--prompt", PROMPT, "--size", "128x128", "--num-inference-steps", "500",
                                "-o", tmp_path / "cat.png"], stderr=subprocess.PIPE, text=True)
    assert any(" 1/500 " in line for line in iter(process.stderr.readline, ""))
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(60) == 130
    assert re.search(r"stopped after \d+ of 500 steps; .*cat\.png was not written", rest)
    assert os.listdir(tmp_path) == []


def in_terminal(command, **environment):
    """What the command writes to a terminal of its own."""
    master, slave = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in ("TMUX", "TERM_PROGRAM", "LC_TERMINAL", "KITTY_WINDOW_ID")}
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env={**clean, **environment})
    os.close(slave)
    written, deadline = b"", time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(master)
    assert process.wait(60) == 0
    return written


def kitty_pictures(written):
    parts = re.findall(rb"\033_G([^;]*);([^\033]*)\033\\", written)
    assert all(len(data) <= 4096 for _, data in parts)
    pictures, data = [], b""
    for keys, piece in parts:
        if not data:
            assert {b"a=T", b"f=100"} <= set(keys.split(b","))  # show it; it is a PNG
        data += piece
        if b"m=0" in keys:
            pictures.append(base64.b64decode(data))
            data = b""
    return pictures


def iterm_pictures(written):
    return [base64.b64decode(data) for data in re.findall(rb"\033\]1337;File=inline=1;[^:]*:([^\a]*)\a", written)]


@pytest.mark.parametrize("environment, pictures_of", [({"TERM": "xterm-kitty"}, kitty_pictures),
                                                      ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, iterm_pictures)])
def test_terminals_that_can_show_the_picture(binary, tmp_path, environment, pictures_of):
    out = tmp_path / "cat.png"
    # Large enough for several pieces.
    written = in_terminal([binary, "generate", MODEL, *FAST, "--size", "192x192", "--seed", "1", "-o", out], **environment)
    shown = pictures_of(written)
    assert Image.open(io.BytesIO(shown[-1])).convert("RGB").tobytes() == pixels(out)


def test_other_terminals_get_a_bar_alone(binary, tmp_path):
    for environment in ({"TERM": "xterm-256color"}, {"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}):
        written = in_terminal([binary, "generate", MODEL, *FAST, "-o", tmp_path / "cat.png"], **environment)
        assert b"s/step" in written
        assert b"\033_G" not in written and b"1337;File" not in written
