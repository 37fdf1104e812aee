"""The memory plan: told before a model is loaded, and models that can't fit refused with the flags that would help."""
import re
import time

from conftest import ROOT

SHAPES = ROOT / "models" / "shapes-flux"
FAST = ["--prompt", "a red circle", "--size", "64x64", "--num-inference-steps", 2, "--max-sequence-length", 32, "--seed", 7]


def problem(done):
    lines = [line for line in done.stderr.splitlines() if line.startswith("quaver: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_picture_model_that_does_not_fit_is_refused_before_it_is_loaded(run, tmp_path):
    out = tmp_path / "x.png"
    started = time.monotonic()
    done = run("generate", SHAPES, *FAST, "-o", out, "--memory-limit", "10MiB", status=1)
    assert time.monotonic() - started < 20  # well under a second where nothing else runs
    assert not out.exists()
    line = problem(done)
    assert re.search(r"shapes-flux: needs \d\d\.\d MiB on cpu \(weights \d\d\.\d MiB, drawing 64x64 \d\.\d MiB\), "
                     r"and --memory-limit allows 10\.0 MiB; ", line), line
    assert "with --quantization int4 it is 2" in line and "still too much" in line


def test_the_flags_that_it_names_help(run, tmp_path):
    large = ["--prompt", "a red circle", "--size", "256x256", "--num-inference-steps", 1, "-o", tmp_path / "x.png", "--quiet"]
    limit = ["--memory-limit", "55MiB"]
    line = problem(run("generate", SHAPES, *large, *limit, status=1))
    assert "decoding 256x256" in line
    assert re.search(r"with --vae-use-tiling it is \d\d\.\d MiB;", line) and re.search(r"with --size \d+x\d+ it is \d\d\.\d MiB", line)
    run("generate", SHAPES, *large, *limit, "--vae-use-tiling")


def test_serve_refuses_too_and_ends(run):
    line = problem(run("serve", SHAPES, "--port", 0, env={"QUAVER_MEMORY_LIMIT": "10MiB"}, status=1, timeout=60))
    assert "--memory-limit allows 10.0 MiB" in line and "128x128" in line


def test_f130_the_plan_is_told_first(run, tmp_path):
    said = run("generate", SHAPES, *FAST, "-o", tmp_path / "x.png").stderr
    table = said[:said.index("drawing [")] if "drawing [" in said else said
    for row in ["memory of cpu: ", "text_encoder ", "text_encoder_2 ", "transformer ", "vae ", "drawing 64x64 ",
                "decoding 64x64 ", "together ", "mapped from files "]:
        assert row in table, said


def test_a_language_model_that_does_not_fit(run, tiny_model):
    line = problem(run("generate", tiny_model, "--prompt", "a", "--memory-limit", "2KiB", status=1))
    assert "MiB on cpu (weights" in line and "with --quantization int4 it is" in line
    run("generate", tiny_model, "--prompt", "a", "--max-tokens", 1, "--memory-limit", "none")


def test_a_limit_that_is_none(run, tiny_model):
    assert "memory_limit" in run("serve", tiny_model, "--memory-limit", "much", status=2).stderr


def test_offload_on_the_cpu_says_that_it_has_no_effect(run, tmp_path):
    pictures = []
    for flags in [[], ["--offload", "--enable-cpu-offload", "--enable_layerwise_offload"]]:
        out = tmp_path / f"{len(pictures)}.png"
        done = run("generate", SHAPES, *FAST, "--quiet", "-o", out, *flags)
        assert ("--offload has no effect" in done.stderr) == bool(flags)
        pictures.append(out.read_bytes())
    assert len(set(pictures)) == 1


def test_offload_is_for_pictures(run, tiny_model):
    assert "--offload is for models of pictures" in run("generate", tiny_model, "--prompt", "a", "--offload", status=2).stderr
