"""quaver compare: its JSON against figures made anew from the saved pictures, its limits, its page."""
import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from conftest import ROOT

MODEL = ROOT / "models" / "shapes-flux"
PROMPTS = ["a red circle on a white background", "a green square & a <blue> star on a black background"]
FAST = ["--task", "t2i", "--model", MODEL, "--size", "64x64", "--num-inference-steps", "3", "--quiet"]


def strict(path):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")
    return json.loads(path.read_text(), parse_constant=refuse)


def load(path):
    return np.asarray(Image.open(path).convert("RGB"), np.float64)


@pytest.fixture(scope="module")
def compared(run, tmp_path_factory):
    """Plain weights beside the same ones rounded to int4, two prompts with two seeds."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "prompts.txt").write_text(PROMPTS[1] + "\r\n\n")
    done = run("compare", *FAST, "--candidate-quantization", "int4", "--prompt", PROMPTS[0], "--prompts-file", folder / "prompts.txt",
               "--seed", 3, "--seed", 9, "--min-psnr", 90, "--min-ssim", -1, "--output-json", folder / "out.json", "--output-html",
               folder / "out.html", "--save-output-dir", folder / "pictures", status=1)
    return done, strict(folder / "out.json"), (folder / "out.html").read_text()


def test_the_figures_are_those_of_the_saved_pictures(compared):
    _, report, _ = compared
    pairs = [(load(a), load(b)) for a, b in zip(report["saved_outputs"]["reference"], report["saved_outputs"]["candidate"])]
    assert len(pairs) == len(report["pictures"]) == 4
    for (a, b), row in zip(pairs, report["pictures"]):
        mse = np.mean((a - b) ** 2)
        assert row["metrics"]["mse"] == pytest.approx(mse, rel=1e-12)
        assert row["metrics"]["psnr_db"] == pytest.approx(10 * np.log10(255**2 / mse), rel=1e-12)
    metrics = report["output_metrics"]
    assert metrics["num_frames"] == metrics["num_images"] == 4 and metrics["mid_frame_index"] == 2
    assert metrics["frame0_metrics"] == metrics["image0_metrics"] == report["pictures"][0]["metrics"]
    assert metrics["mid_frame_metrics"] == report["pictures"][2]["metrics"]
    all_a, all_b = (np.stack(side).ravel() for side in zip(*pairs))
    assert metrics["all_frames_metrics"]["mae"] == pytest.approx(np.mean(np.abs(all_a - all_b)), rel=1e-12)
    cosine = all_a @ all_b / np.linalg.norm(all_a) / np.linalg.norm(all_b)
    assert metrics["all_frames_metrics"]["cosine_similarity"] == pytest.approx(cosine, rel=1e-12)


def test_latents_drift_apart_from_equal_noise(compared):
    _, report, _ = compared
    for row in report["pictures"]:
        distances = [step["relative_l2"] for step in row["latents"]]
        assert [step["step"] for step in row["latents"]] == [1, 2, 3]
        assert 0 < distances[0] < distances[-1] < 0.5  # other noise would be sqrt(2) apart


def test_means_and_settings(compared):
    _, report, _ = compared
    assert report["prompts"] == PROMPTS and report["seeds"] == [3, 9] and report["prompt"] == PROMPTS[0] and report["seed"] == 3
    summary = report["summary"]["ssim"]
    values = [row["ssim"] for row in report["pictures"]]
    assert summary["mean"] == pytest.approx(np.mean(values)) and summary["count"] == 4
    low, high = summary["confidence_95"]
    assert min(values) <= low <= summary["mean"] <= high <= max(values)
    variants = report["variant_configs"]
    assert variants["reference"]["quantization"] is None and variants["candidate"]["quantization"] == "int4"
    assert report["sampling_kwargs"]["width"] == 64 and report["sampling_kwargs"]["num_inference_steps"] == 3
    for side in ("reference_generation", "candidate_generation"):
        assert report[side]["generation_time_s"] > 0 and len(report[side]["per_run_generation_time_s"]) == 1


def test_a_missed_limit_names_the_prompt(compared):
    done, report, _ = compared
    worst = min(report["pictures"], key=lambda row: row["metrics"]["psnr_db"])
    assert re.search(r"--min-psnr 90 is missed by 4 of 4 pictures; the worst, [\d.]+, is of "
                     + re.escape(f"'{worst['prompt']}' with seed {worst['seed']}"), done.stderr)
    assert "min-ssim" not in done.stderr
    missed, met = report["limits"]
    assert (missed["flag"], missed["passed"], missed["failed_pictures"]) == ("min-psnr", False, 4)
    assert (met["flag"], met["passed"], met["failed_pictures"]) == ("min-ssim", True, 0)


def test_the_page_holds_everything_itself(compared):
    _, report, page = compared
    assert "a green square &amp; a &lt;blue&gt; star" in page and "<blue>" not in page
    assert not re.search(r"https?://|<script", page)
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(data))), np.float64)
             for data in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert len(shown) == 3 * len(report["pictures"]) and page.count("<polyline") == len(report["pictures"])
    for (a, b, difference) in zip(shown[::3], shown[1::3], shown[2::3]):
        assert np.array_equal(difference, np.clip(128 + 8 * (b - a), 0, 255))


def test_equal_models_are_identical_and_meet_every_limit(run, tmp_path):
    done = run("compare", *FAST, "--prompt", PROMPTS[0], "--min-psnr", 100, "--max-mae", 0, "--min-latent-cosine", 1, "--min-ssim", 1,
               "--output-json", tmp_path / "out.json")
    report = strict(tmp_path / "out.json")
    assert report["seed"] == 42
    picture = report["pictures"][0]
    assert picture["metrics"]["identical"] and picture["metrics"]["psnr_db"] is None and picture["ssim"] == 1
    assert all(step["identical"] for step in picture["latents"])
    assert report["summary"]["psnr_db"] == {"mean": None, "count": 0, "confidence_95": None}
    assert all(limit["passed"] for limit in report["limits"])
    assert "1 identical" in done.stdout


def test_a_step_cache_is_a_variant(run, tmp_path):
    run("compare", *FAST, "--prompt", PROMPTS[0], "--candidate-cache", "first-block:0.9", "--output-json", tmp_path / "out.json")
    report = strict(tmp_path / "out.json")
    assert report["pictures"][0]["steps_skipped"]["reference"] == 0
    assert report["pictures"][0]["steps_skipped"]["candidate"] > 0
    assert not report["pictures"][0]["metrics"]["identical"]


@pytest.mark.parametrize("flags, words", [
    ([], "nothing to draw: give --prompt"),
    (["--prompt", "a", "--task", "t2v"], "--task: t2v not in {t2i}"),
    (["--prompt", "a", "--ring-degree", "2"], "--ring-degree: 2 not in {1}"),
    (["--prompt", "a", "--measure-runs", "0"], "--measure-runs is 0, expected 1 or more"),
    (["--prompt", "a", "--model", ROOT / "models"], "this is none: it has no model_index.json"),
])
def test_mistakes(run, flags, words):
    assert words in run("compare", *FAST, *flags, status=2).stderr


def write_lpips_weights(path):
    """Random AlexNet and heads as one safetensors file."""
    random, header, data = np.random.default_rng(3), {}, b""
    shapes = {}
    for number, (index, shape) in enumerate({0: (64, 3, 11, 11), 3: (192, 64, 5, 5), 6: (384, 192, 3, 3), 8: (256, 384, 3, 3),
                                             10: (256, 256, 3, 3)}.items()):
        shapes |= {f"features.{index}.weight": shape, f"features.{index}.bias": shape[:1], f"lin{number}.model.1.weight": (1, shape[0], 1, 1)}
    for name, shape in shapes.items():
        values = random.random(shape, np.float32) if name.startswith("lin") else (random.random(shape, np.float32) - 0.5) * 0.1
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_lpips_where_its_weights_are(run, tmp_path):
    write_lpips_weights(tmp_path / "quaver" / "lpips" / "all.safetensors")
    job = ["compare", *FAST[:-2], 1, "--quiet", "--max-sequence-length", 32, "--prompt", PROMPTS[0], "--candidate-quantization", "int4", "--max-lpips", 1e-9]
    refused = run(*job, status=2, env={"XDG_CACHE_HOME": str(tmp_path / "none")})
    assert "--max-lpips needs weights: give --lpips-weights" in refused.stderr
    for where in ({"XDG_CACHE_HOME": str(tmp_path)}, {}):
        flags = [] if where else ["--lpips-weights", tmp_path / "quaver" / "lpips"]
        done = run(*job, *flags, "--output-json", tmp_path / "out.json", status=1, env=where)
        report = strict(tmp_path / "out.json")
        assert report["pictures"][0]["lpips"] > 1e-6 and report["summary"]["lpips"]["count"] == 1
        assert "--max-lpips 1e-09 is missed by 1 of 1 picture" in done.stderr and "picture: LPIPS over AlexNet" in done.stdout
