"""quaver serve on a picture model with the official openai client: pictures, edits, streams, seeds, faults, flags."""
import base64
import concurrent.futures
import io
import json
import random
import socket
import time
import urllib.request
import zipfile

import openai
import pytest
from image_models import edit, PICTURES, png, png_of_chunks, png_size, post, PROMPT, resident_bytes, SHAPES

FAST = {"num_inference_steps": 2, "max_sequence_length": 32}


@pytest.fixture(scope="module")
def server(serve):
    with serve(SHAPES, "--max-num-seqs", 3, "--max-generated-image-size", 128 * 128, "--disable-access-log",
               "--served-model-name", "shapes") as (url, process, lines):
        yield url, process


@pytest.fixture(scope="module")
def base(server):
    return server[0]


@pytest.fixture(scope="module")
def client(base):
    return openai.OpenAI(base_url=base + "/v1", api_key="unused", max_retries=0)


def generate(base, **fields):
    return post(base + "/v1/images/generations", {"prompt": PROMPT, "size": "64x64", **FAST, **fields})


def picture(base, **fields):
    status, body = generate(base, **fields)
    assert status == 200, body
    return body["data"][0]["b64_json"]


def metric(base, name):
    text = urllib.request.urlopen(base + "/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def test_the_official_client_draws(client):
    out = client.images.generate(model="shapes", prompt=PROMPT, size="64x48", n=2, output_format="png", extra_body={"seed": 5, **FAST})
    assert [png_size(base64.b64decode(image.b64_json)) for image in out.data] == [(64, 48)] * 2
    assert out.size == "64x48" and [image.seed for image in out.data] == [5, 6]
    assert out.usage.input_tokens > 0 and out.usage.peak_memory_mb > 0
    assert out.metrics["num_inference_steps"] == 2 and set(out.metrics["stage_durations"]) == {"text_encode", "denoise", "decode"}


def test_the_official_client_edits(client):
    source = png(64, 64, lambda x, y: (x * 4, y * 4, 0))
    mask = png(64, 64, lambda x, y: (0, 0, 0, 0 if x < 32 else 255))
    out = client.images.edit(model="shapes", image=("a.png", source), mask=("m.png", mask), prompt=PROMPT,
                             extra_body={"seed": 5, "strength": 1.0, **FAST})
    assert png_size(base64.b64decode(out.data[0].b64_json)) == (64, 64)
    events = list(client.images.edit(model="shapes", image=[("a.png", source)], prompt=PROMPT, stream=True, partial_images=1,
                                     extra_body={"num_inference_steps": 4}))
    assert [event.type for event in events if event.type != "image_edit.progress"] == \
        ["image_edit.partial_image", "image_edit.completed"]


def test_the_official_client_streams(client, base):
    events = list(client.images.generate(model="shapes", prompt=PROMPT, size="64x64", stream=True, partial_images=2,
                                         extra_body={**FAST, "seed": 9, "num_inference_steps": 4}))
    kinds = [event.type.split(".")[1] for event in events]
    assert kinds == ["progress", "progress", "partial_image", "progress", "partial_image", "progress", "progress", "completed"]
    assert [event.step for event in events if event.type.endswith("progress")] == [0, 1, 2, 3, 4]
    assert events[-1].b64_json == picture(base, seed=9, num_inference_steps=4)


def test_chat_answers_with_pictures(client, base):
    out = client.chat.completions.create(model="shapes", messages=[{"role": "user", "content": PROMPT}],
                                         extra_body={"seed": 5, "size": "64x64", **FAST})
    url = out.choices[0].message.content[0]["image_url"]["url"]
    assert url == "data:image/png;base64," + picture(base, seed=5)
    assert out.usage.prompt_tokens > 0 and out.usage.completion_tokens == 0


# F118
def test_f118_seeds(base):
    status, body = generate(base, seed=7, n=4)
    assert status == 200
    for i, image in enumerate(body["data"]):
        assert image["seed"] == 7 + i and image["b64_json"] == picture(base, seed=7 + i)
    assert len({image["b64_json"] for image in body["data"]}) == 4
    for seed in (0, 2**32 - 1, 2**63 - 1):
        assert picture(base, seed=seed) == picture(base, seed=seed)
    status, body = generate(base)
    assert 0 <= body["data"][0]["seed"] < 2**32
    assert body["data"][0]["b64_json"] == picture(base, seed=body["data"][0]["seed"])


# F088, F089, F112: the real limits, on each route.
@pytest.mark.parametrize("fields,param", [
    ({"prompt": ""}, "prompt"), ({"prompt": " \n"}, "prompt"), ({"prompt": "x" * (1 << 20)}, "prompt"), ({"prompt": None}, "prompt"),
    ({"n": 0}, "n"), ({"n": 11}, "n"), ({"n": "2"}, "n"), ({"size": "0x0"}, "size"), ({"size": "10x"}, "size"),
    ({"size": "abc"}, "size"), ({"size": "1024x-1"}, "size"), ({"size": ""}, "size"), ({"size": "1x1"}, "size"),
    ({"size": "17x64"}, "size"), ({"size": "1000000000x64"}, "size"), ({"size": "144x128"}, "size"),
    ({"size": "96x96", "n": 2}, "size"), ({"size": "65536x65536"}, "size"), ({"seed": -1}, "seed"), ({"seed": 2**63}, "seed"),
    ({"seed": "x"}, "seed"), ({"guidance_scale": -1}, "guidance_scale"), ({"guidance_scale": 1e9}, "guidance_scale"),
    ({"num_inference_steps": 0}, "num_inference_steps"), ({"num_inference_steps": 10**9}, "num_inference_steps"),
    ({"max_sequence_length": 100000}, "max_sequence_length"), ({"strength": 0.5}, "strength"),
    ({"response_format": "xml"}, "response_format"), ({"output_format": "bmp"}, "output_format")])
def test_f088_f089_wrong_fields_are_named(base, fields, param):
    status, body = generate(base, **fields)
    assert status == 400 and body["error"]["param"] == f"body.{param}", body
    if param == "size":
        for status, body in (edit(base, fields, ("image", png(16, 16))),
                             post(base + "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **fields})):
            assert status == 400 and body["error"]["param"] == "body.size", body


def test_f112_sizes_are_exact_or_refused_with_the_nearest(base):
    for size in ((16, 16), (64, 48), (128, 128)):
        assert png_size(base64.b64decode(picture(base, size=f"{size[0]}x{size[1]}"))) == size
    status, body = generate(base, size="33x47")
    assert status == 400 and "32x32" in body["error"]["message"] and "48x48" in body["error"]["message"]
    status, body = edit(base, {}, ("image", png(100, 75)))
    assert status == 400 and body["error"]["param"] == "body.size"
    status, body = edit(base, {"size": "96x64"}, ("image", png(100, 75)))
    assert status == 200 and body["size"] == "96x64"


def test_nan_is_no_guidance(base):
    assert post(base + "/v1/images/generations", b'{"prompt": "x", "guidance_scale": NaN}')[0] == 400
    status, body = edit(base, {"guidance_scale": "nan"}, ("image", png(16, 16)))
    assert status == 400 and body["error"]["param"] == "body.guidance_scale"


def bomb(width, height):
    return png_of_chunks((b"IHDR", width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"), (b"IDAT", b"\0" * 100))


# F070: refused from the header, without memory for the pixels.
@pytest.mark.parametrize("size", [(20000, 20000), (65535, 65535), (2**31 - 1, 2**31 - 1)])
def test_f070_bombs_cost_nothing(server, size):
    base, process = server
    edit(base, {}, ("image", png(16, 16)))
    before = resident_bytes(process.pid)
    status, body = edit(base, {}, ("image", bomb(*size)))
    assert status == 400 and body["error"]["param"] == "body.image", body
    assert resident_bytes(process.pid) - before < 50 << 20


# F108: the pictures that Pillow wrote, each an edit's source.
@pytest.mark.parametrize("path", sorted(PICTURES.iterdir()), ids=lambda path: path.name)
def test_f108_pictures_of_every_kind_are_taken(base, path):
    status, body = edit(base, {"size": "32x32"}, ("image", path.read_bytes()))
    assert status == 200, body


def test_sources_change_the_picture(base):
    one, two = (edit(base, {"seed": 3, "strength": 0.4, "num_inference_steps": 5}, ("image", png(32, 32, lambda x, y: c)))[1]["data"][0]["b64_json"]
                for c in ((255, 0, 0), (0, 0, 255)))
    assert one != two


# F081(e)
@pytest.mark.parametrize("stream", [False, True])
def test_f081_a_closed_connection_ends_the_job_within_a_step(base, stream):
    body = json.dumps({"prompt": PROMPT, "size": "128x128", "num_inference_steps": 200, "stream": stream})
    host, port = base.removeprefix("http://").split(":")
    before = metric(base, "quaver:requests_cancelled_total")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"POST /v1/images/generations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        if stream:
            connection.recv(100)
        time.sleep(0.5)
    end = time.monotonic() + 5
    while metric(base, "quaver:requests_cancelled_total") == before:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert metric(base, "vllm_omni:num_requests_running") == 0


def one_of_many(base, i):
    """A request of a mixed load: what it was and what must be true of its answer."""
    chance = random.Random(i)
    kind = chance.choice(["good", "good", "edit", "bad", "bad edit", "cancel", "zip"])
    if kind == "good":
        size, n, seed = chance.choice(["64x64", "32x48", "64x32"]), chance.choice([1, 2, 3]), chance.randrange(2**63 - 9)
        status, body = generate(base, size=size, n=n, seed=seed, num_inference_steps=chance.choice([1, 2]))
        assert status == 200 and [d["seed"] for d in body["data"]] == [seed + k for k in range(n)], body
        assert all(png_size(base64.b64decode(d["b64_json"])) == tuple(map(int, size.split("x"))) for d in body["data"])
    elif kind == "edit":
        status, body = edit(base, {"strength": 0.9}, ("image", png(32, 32)), ("mask_image", png(8, 8, lambda x, y: (255 * (x < 4),) * 3)))
        assert status == 200 and body["size"] == "32x32", body
    elif kind == "bad":
        name, value = chance.choice([("size", "1x1"), ("size", "17x17"), ("size", "1000000000x1000000000"), ("prompt", " "),
                                     ("n", 99), ("seed", -5), ("guidance_scale", 1e300), ("num_inference_steps", -1)])
        status, body = generate(base, **{name: value})
        assert status == 400 and body["error"]["param"] == f"body.{name}", body
    elif kind == "bad edit":
        name, data = chance.choice([("image", b""), ("image", b"GIF89a"), ("image", png(32, 32)[:70]), ("image", bomb(60000, 60000)),
                                    ("mask_image", b"no picture"), ("mask", png(32, 32)), ("mask_image", png(32, 32)[:50])])
        status, body = edit(base, {}, *([] if name == "image" else [("image", png(32, 32))]), (name, data))
        assert status == 400 and body["error"]["param"] == f"body.{name}", body
    elif kind == "cancel":
        with pytest.raises(openai.APITimeoutError):
            openai.OpenAI(base_url=base + "/v1", api_key="x", max_retries=0, timeout=chance.uniform(0.01, 0.4)).images.generate(
                prompt=PROMPT, size="128x128", extra_body={"num_inference_steps": 200})
    else:
        request = urllib.request.Request(base + "/v1/images/generations", json.dumps(
            {"prompt": PROMPT, "size": "32x32", "n": 2, "response_format": "file", **FAST}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            archive = zipfile.ZipFile(io.BytesIO(answer.read()))
        assert archive.testzip() is None and archive.namelist() == ["image_0.png", "image_1.png"]
    return kind


# 100 requests, 8 at a time, a third of them bad or cancelled: none lost, every good one right, memory flat.
def test_mixed_load_loses_nothing_and_keeps_memory_flat(server):
    base, process = server
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: one_of_many(base, i), range(16)))  # every shape once: buffers find their size
        before = resident_bytes(process.pid)
        kinds = list(pool.map(lambda i: one_of_many(base, 100 + i), range(100)))
    assert set(kinds) == {"good", "edit", "bad", "bad edit", "cancel", "zip"}
    end = time.monotonic() + 10
    while metric(base, "vllm_omni:num_requests_running") + metric(base, "vllm_omni:num_requests_waiting") > 0:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert resident_bytes(process.pid) - before < 24 << 20
    assert metric(base, "vllm_omni:requests_success_total{") > 0


# F137: other routes answer while a picture is made.
def test_f137_health_answers_during_jobs(base):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        job = pool.submit(generate, base, size="128x128", num_inference_steps=20)
        slowest = 0
        while not job.done():
            begin = time.monotonic()
            assert urllib.request.urlopen(base + "/health").status == 200
            slowest = max(slowest, time.monotonic() - begin)
            time.sleep(0.02)
    assert job.result()[0] == 200 and slowest < 0.2


# F090, F091
def test_f090_f091_names_and_routes(base):
    for path, body in (("images/generations", {"prompt": "x"}), ("chat/completions", {"messages": [{"role": "user", "content": "x"}]})):
        status, answer = post(f"{base}/v1/{path}", {**body, "model": "does-not-exist"})
        assert status == 404 and "model_not_found" in answer["error"]["message"]
    assert edit(base, {"model": "does-not-exist"}, ("image", png(16, 16)))[0] == 404
    for path in ("/v1/completions", "/tokenize", "/v1/audio/speech", "/v1/videos", "/v1/embeddings"):
        status, answer = post(base + path, {"prompt": "x"})
        assert status == 404 and "image_generation, image_edit" in answer["error"]["message"]
    model = json.loads(urllib.request.urlopen(base + "/v1/models").read())["data"][0]
    assert model["id"] == "shapes" and model["capabilities"] == ["image_generation", "image_edit"]


@pytest.mark.parametrize("flags,words", [
    (["--max-model-len", 16], "--max-model-len is for models of text"),
    (["--no-enable-prefix-caching"], "--enable-prefix-caching is for models of text"),
    (["--cache", "nonsense"], "cache"), (["--max-generated-image-size", 0], "max-generated-image-size"),
    (["--default-sampling-params", '{"temperature": 1}'], "'temperature' is a parameter of models that make text"),
    (["--default-sampling-params", '{"size": 3}'], "'size' must be text")])
def test_flags_that_do_not_fit_are_refused(run, flags, words):
    assert words in run("serve", SHAPES, *flags, status=2).stderr


def test_flags_of_pictures_are_refused_for_text(run, tiny_model):
    assert "--cache is for models of pictures" in run("serve", tiny_model, "--cache", "none", status=2).stderr
    assert "models that make pictures" in run("serve", tiny_model, "--default-sampling-params", '{"size": "64x64"}', status=2).stderr


def test_operators_defaults_hold(serve):
    with serve(SHAPES, "--vae-use-tiling", "--cache", "first-block", "--default-sampling-params",
               json.dumps({"size": "48x32", "num_inference_steps": 3, "guidance_scale": 2})) as (url, _, _):
        status, body = post(url + "/v1/images/generations", {"prompt": PROMPT})
        assert status == 200 and body["size"] == "48x32"
        assert body["metrics"]["num_inference_steps"] == 3 and body["metrics"]["guidance_scale"] == 2
