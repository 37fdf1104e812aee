"""Pictures from Python: outputs, seeds, batches, sources and masks, errors of one request, Ctrl-C."""
import io
import os
import re
import signal
import subprocess
import threading
import time

import numpy
import PIL.Image
import PIL.ImageDraw
import pytest
import torch

from conftest import PROMPT, SHAPES
from quaver import Omni, OmniDiffusionSamplingParams, QuaverError


def params(**fields):
    return OmniDiffusionSamplingParams(**{"height": 64, "width": 64, "num_inference_steps": 2, "seed": 7, **fields})


def one(omni, prompt=PROMPT, **fields):
    output, = omni.generate(prompt, params(**fields), use_tqdm=False)
    assert output.error is None
    return output


def test_an_output_says_how_it_was_made(shapes):
    output = one(shapes, num_outputs_per_prompt=2, guidance_scale=3)
    assert output.finished and output.final_output_type == "image" and output.prompt == PROMPT and output.request_id
    assert [(image.mode, image.size, image.info["seed"]) for image in output.images] == [("RGB", (64, 64), 7), ("RGB", (64, 64), 8)]
    assert set(output.stage_durations) == {"text_encode", "denoise", "decode"}
    assert output.peak_memory_mb > 10
    assert (output.metrics["guidance_scale"], output.metrics["num_inference_steps"], output.metrics["seeds"]) == (3, 2, [7, 8])
    assert repr(output).endswith("images=[64x64 seed 7, 64x64 seed 8], finished=True)")
    assert PIL.Image.open(io.BytesIO(output._repr_png_())).size == (128, 64)


def test_the_picture_is_the_programs(shapes, tmp_path):
    path = tmp_path / "cat.png"
    subprocess.run([os.environ["QUAVER_BINARY"], "generate", SHAPES, "--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", "2",
                    "--seed", "7", "--quiet", "-o", path], check=True, stdout=subprocess.DEVNULL)
    assert one(shapes).images[0].tobytes() == PIL.Image.open(path).tobytes()


def test_a_seed_is_drawn_and_told(shapes):
    drawn = one(shapes, seed=None).images[0]
    assert one(shapes, seed=drawn.info["seed"]).images[0].tobytes() == drawn.tobytes()


def test_the_seed_of_a_fresh_generator_counts(shapes):
    fresh = one(shapes, seed=None, generator=torch.Generator().manual_seed(7))
    assert fresh.images[0].info["seed"] == 7
    used = torch.Generator().manual_seed(7)
    torch.rand(1, generator=used)
    with pytest.raises(NotImplementedError, match="drawn from"):
        one(shapes, seed=None, generator=used)


def test_prompts_in_order_each_with_its_own_parameters(shapes):
    prompts = [{"prompt": PROMPT, "sampling_params": params(seed=seed)} for seed in (3, 1, 2)] + ["a blue star on a black background"]
    outputs = shapes.generate(prompts, params(), use_tqdm=False)
    assert [output.images[0].info["seed"] for output in outputs] == [3, 1, 2, 7]
    assert outputs[1].images[0].tobytes() == one(shapes, seed=1).images[0].tobytes()


def test_a_generator_gives_each_as_it_ends_and_aborts_what_is_left(shapes):
    outputs = shapes.generate([PROMPT] * 3, params(), py_generator=True, use_tqdm=False)
    assert next(outputs).finished
    outputs.close()
    long = shapes.generate([PROMPT, PROMPT], [params(num_inference_steps=1000)], py_generator=True, use_tqdm=False)
    threading.Timer(0.3, shapes.generate, [PROMPT, params()], {"use_tqdm": False}).start()
    del long
    assert one(shapes).finished


@pytest.fixture(scope="module")
def source():
    picture = PIL.Image.new("RGB", (64, 64), (250, 250, 250))
    PIL.ImageDraw.Draw(picture).ellipse((20, 20, 44, 44), fill=(220, 40, 40))
    return picture


def from_source(shapes, image, **media):
    media = {"prompt": PROMPT, "multi_modal_data": {"image": image, **media}}
    return one(shapes, media, strength=0.5, height=None, width=None).images[0].tobytes()


def test_a_source_may_be_a_file_an_array_or_a_picture(shapes, source, tmp_path):
    expected = from_source(shapes, source)
    assert expected != one(shapes).images[0].tobytes()
    source.save(tmp_path / "source.png")
    assert from_source(shapes, tmp_path / "source.png") == expected
    assert from_source(shapes, str(tmp_path / "source.png")) == expected
    assert from_source(shapes, numpy.asarray(source)) == expected
    assert from_source(shapes, numpy.asarray(source) / numpy.float32(255)) == expected
    assert from_source(shapes, [source]) == expected


def test_sources_are_upright_and_on_white(shapes, source):
    turned = source.transpose(PIL.Image.Transpose.ROTATE_90)
    turned.getexif()[0x0112] = 6  # rotate by 270 degrees to show
    assert from_source(shapes, turned) == from_source(shapes, source)
    clear = PIL.Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    assert from_source(shapes, clear) == from_source(shapes, PIL.Image.new("RGB", (64, 64), "white"))
    wide = PIL.Image.fromarray(numpy.full((64, 64), 250 * 257, numpy.uint16))
    assert from_source(shapes, wide) == from_source(shapes, PIL.Image.new("L", (64, 64), 250))


def test_black_of_a_mask_is_kept(shapes, source):
    black = from_source(shapes, source, mask_image=PIL.Image.new("L", (64, 64), 0))
    white = from_source(shapes, source, mask_image=numpy.full((64, 64), True))
    assert white == from_source(shapes, source)
    near = [numpy.abs(numpy.frombuffer(made, numpy.uint8) - numpy.asarray(source, numpy.float32).ravel()).mean()
            for made in (black, white)]
    assert near[0] < near[1]


@pytest.mark.parametrize("prompt, fields, words", [
    (PROMPT, {"width": 65}, "size is 65x64, expected multiples of"),
    (PROMPT, {"width": 10**9}, "size is 1000000000x64"),
    (PROMPT, {"seed": -1}, "seed is -1"),
    (PROMPT, {"guidance_scale": float("nan")}, "guidance_scale is nan"),
    (PROMPT, {"num_outputs_per_prompt": 0}, "n is 0"),
    (PROMPT, {"strength": 0.5}, "strength needs an image"),
    (" ", {}, "prompt is empty"),
    ({"prompt": PROMPT, "multi_modal_data": {"mask_image": PIL.Image.new("L", (64, 64))}}, {}, "mask_image needs an image"),
    ({"prompt": PROMPT, "multi_modal_data": {"image": "/nowhere/cat.png"}}, {}, "/nowhere/cat.png"),
    ({"prompt": PROMPT, "multi_modal_data": {"image": __file__}}, {}, "image .*pictures_test.py"),
    ({"prompt": PROMPT, "multi_modal_data": {"image": numpy.zeros((4, 4, 2), numpy.uint8)}}, {}, "image has shape"),
])
def test_an_error_ends_its_request_alone(shapes, prompt, fields, words, caplog):
    given = prompt if isinstance(prompt, dict) else {"prompt": prompt}
    bad, good = shapes.generate([{**given, "sampling_params": params(**fields)}, PROMPT], params(), use_tqdm=False)
    assert bad.finished and not bad.images and bad.error_status_code == 400 and bad.error_type == "Bad Request"
    assert re.search(words, bad.error) and bad.error in caplog.text and repr(bad.error) in repr(bad)
    assert good.error is None and good.images


def test_ctrl_c_aborts_and_returns_at_once(shapes):
    # The second request waits behind the first: both must go.
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        shapes.generate([PROMPT, "a blue star"], params(num_inference_steps=1000), use_tqdm=False)
    assert time.monotonic() - start < 5
    assert one(shapes).images


def test_other_threads_run_meanwhile(shapes):
    ticks, done = [0], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    one(shapes, num_inference_steps=6)
    took = time.monotonic() - start
    done.set()
    thread.join()
    assert ticks[0] > took / 0.05


def test_the_bar_counts_steps(shapes, bars):
    shapes.generate([PROMPT, " "], params(num_inference_steps=3, num_outputs_per_prompt=2), use_tqdm=bars.make)
    assert bars.shown == [(12, 12, "step")]


def test_a_closed_model_says_so():
    omni = Omni(SHAPES, vae_use_tiling=True, dtype=torch.float32, device=torch.device("cpu"), cache_backend="tea_cache",
                cache_config={"rel_l1_thresh": 0.2})
    outputs = omni.generate([PROMPT] * 2, params(num_inference_steps=1000), py_generator=True, use_tqdm=False)
    threading.Timer(0.3, omni.close).start()
    assert [output.error for output in outputs] == ["the request was aborted"] * 2
    with pytest.raises(QuaverError, match="this model is closed"):
        omni.generate(PROMPT, params())


def test_what_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(QuaverError, match="neither a folder") as caught:
        Omni(tmp_path / "nothing")
    assert (caught.value.kind, caught.value.status_code) == ("not_found", 404)
    with pytest.raises(QuaverError, match="dtype") as caught:
        Omni(SHAPES, dtype="float31")
    assert caught.value.kind == "invalid_input" and caught.value.field == "dtype"
