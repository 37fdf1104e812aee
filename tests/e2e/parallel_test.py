"""Pictures whose transformer several processes share: the same picture as one process makes, and what happens when one of them
dies, fails or is left (F123, F133)."""
import base64
import concurrent.futures
import io
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from image_models import post, PROMPT, SHAPES
from PIL import Image, ImageChops

FEW = ["--prompt", PROMPT, "--seed", 3, "--num-inference-steps", 3, "--max-sequence-length", 32, "--quiet"]
GUIDED = ["--negative-prompt", "a blue triangle", "--true-cfg-scale", 2]
BODY = {"prompt": PROMPT, "seed": 3, "num_inference_steps": 3, "max_sequence_length": 32, "size": "64x64"}
LONG = {**BODY, "num_inference_steps": 200, "size": "128x128", "negative_prompt": "a blue triangle", "true_cfg_scale": 2}


def others_of(pid):
    """The processes of the other ranks, in their order."""
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def health(url):
    try:
        return urllib.request.urlopen(url + "/health", timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def largest_difference(one, other):
    return max(high for _, high in ImageChops.difference(one.convert("RGB"), other.convert("RGB")).getextrema())


def drawn(body):
    return Image.open(io.BytesIO(base64.b64decode(body["data"][0]["b64_json"])))


@pytest.fixture(scope="module")
def generate(run, tmp_path_factory):
    """The picture that a command line makes, each made once."""
    folder, made = tmp_path_factory.mktemp("parallel"), {}

    def call(*flags):
        if flags not in made:
            made[flags] = folder / f"{len(made)}.png"
            run("generate", SHAPES, *FEW, *flags, "-o", made[flags])
        return Image.open(made[flags])
    return call


# Odd sizes: 5 x 3 tokens. Sums run in another order, which may turn a pixel by one.
@pytest.mark.parametrize("ranks, request_flags", [
    (["--cfg-parallel-size", 2], [*GUIDED, "--size", "80x48"]),
    (["--cfg-parallel-size", 2], ["--size", "48x80", "--guidance-scale", "1.0"]),
    (["--cfg-parallel-size", 2], [*GUIDED, "--size", "80x48", "--cache", "first-block:0.2"]),
    (["--usp", 2], ["--size", "80x48", "--cache", "teacache:0.9"]),
    (["--cfg-parallel-size", 2, "--tensor_parallel_size", 2], [*GUIDED, "--size", "80x48"]),
    (["--cfg-parallel-size", 2, "--ulysses-degree", 2], ["--size", "80x48"]),
    (["--tensor-parallel-size", 2, "--ulysses-degree", 2], [*GUIDED, "--size", "80x48"]),
], ids=lambda flags: " ".join(map(str, flags)))
def test_f123_ranks_draw_what_one_process_draws(generate, ranks, request_flags):
    assert largest_difference(generate(*request_flags, *ranks), generate(*request_flags)) <= 1


def test_f123_impossible_sizes_are_refused_at_start(run, tiny_model):
    done = run("generate", SHAPES, *FEW, "--cfg-parallel-size", 3, "-o", "/dev/null", status=2)
    assert "--cfg-parallel-size" in done.stderr
    done = run("generate", SHAPES, *FEW, "--tensor-parallel-size", 7, "-o", "/dev/null", status=2)
    assert re.search(r"--tensor-parallel-size 7 times --ulysses-degree 1 is more than the \d attention heads", done.stderr)
    done = run("generate", tiny_model, "--prompt", "a", "--usp", 2, status=2)
    assert "--ulysses-degree is for models of pictures" in done.stderr
    done = run("generate", SHAPES, *FEW, "--usp", 2, status=2, env={"RANK": "0", "WORLD_SIZE": "4", "MASTER_PORT": "1"})
    assert "WORLD_SIZE is 4, but --cfg-parallel-size 1, --tensor-parallel-size 1 and --ulysses-degree 2 make 2" in done.stderr


def test_ranks_under_torchrun_find_each_other(binary, generate, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = [*GUIDED, "--size", "80x48"]
    ranks = []
    for rank in (1, 0):  # the leader last
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        ranks.append(subprocess.Popen([binary, "generate", SHAPES, *map(str, FEW + flags), "--cfg-parallel-size", "2", "-o",
                                       tmp_path / f"of-{rank}.png"], env=environment, stdout=subprocess.PIPE, text=True))
        time.sleep(0.3)
    outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert outputs == ["", f"{tmp_path}/of-0.png\n"]
    assert largest_difference(Image.open(tmp_path / "of-0.png"), generate(*flags)) <= 1


def test_compare_shares_both_models_one_after_the_other(run):
    done = run("compare", "--model", SHAPES, *FEW, *GUIDED, "--size", "64x64", "--cfg-parallel-size", 2)
    assert "1 identical" in done.stdout


def test_a_server_of_ranks_serves_and_stops(serve, generate):
    with serve(SHAPES, "--cfg-parallel-size", 2) as (url, process, lines):
        others = others_of(process.pid)
        assert len(others) == 1
        status, body = post(url + "/v1/images/generations", {**BODY, "negative_prompt": "a blue triangle", "true_cfg_scale": 2})
        assert status == 200 and "notes" not in body["metrics"], body
        assert largest_difference(drawn(body), generate(*GUIDED, "--size", "64x64")) <= 1
        status, body = post(url + "/v1/images/generations", BODY)
        assert status == 200
        assert [note for note in body["metrics"]["notes"] if note.startswith("--cfg-parallel-size 2 has no effect")]
        # F133: who cancels is known to rank 0 alone.
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) as connection:
                data = json.dumps(LONG).encode()
                connection.sendall(b"POST /v1/images/generations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
                time.sleep(0.3)
            status, again = post(url + "/v1/images/generations", BODY)
            assert status == 200 and again["data"] == body["data"]
        process.terminate()
        assert process.wait(20) == 0
        wait_until(lambda: not any(map(is_alive, others)))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_f133_a_rank_that_is_killed_ends_the_request_and_the_server(serve, how):
    with serve(SHAPES, "--usp" if how == signal.SIGTERM else "--cfg-parallel-size", 2) as (url, process, lines), \
            concurrent.futures.ThreadPoolExecutor() as pool:
        others = others_of(process.pid)
        answer = pool.submit(post, url + "/v1/images/generations", LONG)
        time.sleep(0.7)  # within its steps
        assert not answer.done() and health(url) == 200
        os.kill(others[0], how)
        start = time.monotonic()
        status, body = answer.result(15)
        assert status == 500 and "rank 1" in body["error"]["message"], body
        assert health(url) != 200
        assert process.wait(10) == 1
        assert time.monotonic() - start < 10
        wait_until(lambda: not any(map(is_alive, others)))
        wait_until(lambda: any(f"rank 1 (process {others[0]}) was ended by signal {how.value}" in line for line in lines))


def test_f133_an_idle_server_ends_too(serve):
    with serve(SHAPES, "--cfg-parallel-size", 2) as (url, process, lines):
        os.kill(others_of(process.pid)[0], signal.SIGKILL)
        assert process.wait(10) == 1


def test_f133_no_rank_outlives_the_first(serve):
    with serve(SHAPES, "--cfg-parallel-size", 2, "--usp", 2) as (url, process, lines), \
            concurrent.futures.ThreadPoolExecutor() as pool:
        others = others_of(process.pid)
        assert len(others) == 3
        pool.submit(post, url + "/v1/images/generations", LONG)
        time.sleep(0.5)
        process.kill()
        wait_until(lambda: not any(map(is_alive, others)))


# Memory runs out on rank 1 alone: its branch can't be computed, and a later one can.
def test_f133_a_rank_that_fails_ends_the_request_alone(serve):
    with serve(SHAPES, "--cfg-parallel-size", 2) as (url, process, lines):
        body = {**LONG, "num_inference_steps": 2, "size": "512x512"}
        rank, = others_of(process.pid)
        size = int(re.search(r"VmSize:\s+(\d+) kB", pathlib.Path(f"/proc/{rank}/status").read_text()).group(1)) * 1024
        before = resource.prlimit(rank, resource.RLIMIT_AS, (size + (2 << 20), resource.RLIM_INFINITY))
        status, answer = post(url + "/v1/images/generations", body)
        assert status >= 500 and "rank 1: " in answer["error"]["message"], answer
        resource.prlimit(rank, resource.RLIMIT_AS, before)
        status, answer = post(url + "/v1/images/generations", {**body, "size": "64x64"})
        assert status == 200, answer
        assert health(url) == 200 and is_alive(rank)
