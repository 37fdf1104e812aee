"""quaver serve with the official openai client: chat, streaming, log-probabilities, tools, many clients, disconnects."""
import concurrent.futures
import json
import random
import signal
import socket
import time
import urllib.request

import openai
import pytest


@pytest.fixture(scope="module")
def server(serve, tiny_model):
    with serve(tiny_model, "--max-num-seqs", 16, "--disable-access-log") as (url, process, lines):
        yield url, process


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server[0] + "/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def chat(client, model, **options):
    return client.chat.completions.create(**{"model": model, "temperature": 0, "max_tokens": 12,
                                             "messages": [{"role": "user", "content": "hello"}], **options})


def metric(url, name):
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def test_streamed_and_whole_answers_are_equal(client, model):
    whole = chat(client, model)
    pieces = list(chat(client, model, stream=True, stream_options={"include_usage": True}))
    joined = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    assert joined == whole.choices[0].message.content
    assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert [p.choices[0].finish_reason for p in pieces if p.choices and p.choices[0].finish_reason] == \
        [whole.choices[0].finish_reason]


def test_logprobs_and_seeds(client, model):
    answer = chat(client, model, logprobs=True, top_logprobs=3)
    rows = answer.choices[0].logprobs.content
    assert len(rows) == answer.usage.completion_tokens
    assert all(len(row.top_logprobs) == 3 and row.logprob <= 0 for row in rows)
    drawn = [chat(client, model, temperature=1.5, seed=7).choices[0].message.content for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_completions_echo_and_token_ids(client, model, server):
    body = json.dumps({"prompt": "abc"}).encode()
    request = urllib.request.Request(server[0] + "/tokenize", body, {"Content-Type": "application/json"})
    ids = json.load(urllib.request.urlopen(request))["tokens"]
    by_text = client.completions.create(model=model, prompt="abc", max_tokens=5, temperature=0, echo=True)
    by_ids = client.completions.create(model=model, prompt=ids, max_tokens=5, temperature=0, echo=True)
    assert by_text.choices[0].text == by_ids.choices[0].text and by_text.choices[0].text.startswith("abc")


def test_tools_are_accepted(client, model):
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
    assert chat(client, model, tools=[tool]).choices[0].finish_reason in ("length", "stop", "tool_calls")


@pytest.mark.parametrize("options,field", [({"temperature": -1}, "temperature"), ({"top_p": 2}, "top_p"),
                                           ({"max_tokens": 0}, "max_tokens"), ({"messages": []}, "messages")])
def test_wrong_fields_are_named(client, model, options, field):
    with pytest.raises(openai.BadRequestError) as failure:
        chat(client, model, **options)
    assert field in str(failure.value)


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        chat(client, "no-such-model")


def test_sixty_four_clients_get_their_own_answers(client, model):
    prompts = [f"number {i}" for i in range(64)]
    ask = lambda text: chat(client, model, messages=[{"role": "user", "content": text}]).choices[0].message.content
    alone = [ask(text) for text in prompts[:8]]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        together = list(pool.map(ask, prompts))
    assert together[:8] == alone


def disconnect_early(url, seed):
    draw = random.Random(seed)
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"messages": [{"role": "user", "content": f"request {seed}"}], "max_tokens": draw.randint(1, 60),
                       "ignore_eos": True, "stream": draw.random() < 0.5})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.settimeout(60)
        connection.sendall((head + body).encode())
        if draw.random() < 0.6:
            time.sleep(draw.random() * 0.05)
            return
        connection.recv(100)


def test_a_thousand_requests_with_random_disconnects_leave_nothing(server):
    url, _ = server
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda seed: disconnect_early(url, seed), range(1000)))
    deadline = time.monotonic() + 30
    while metric(url, "vllm:num_requests_running") + metric(url, "vllm:num_requests_waiting") > 0:
        assert time.monotonic() < deadline, "requests are stuck"
        time.sleep(0.1)
    assert metric(url, "vllm:kv_cache_usage_perc") == 0
    assert urllib.request.urlopen(url + "/health").status == 200


def test_sigterm_drains(serve, tiny_model):
    with serve(tiny_model, "--disable-access-log") as (url, process, _):
        client = openai.OpenAI(base_url=url + "/v1", api_key="unused", max_retries=0)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(lambda: chat(client, client.models.list().data[0].id, max_tokens=300,
                                              extra_body={"ignore_eos": True}))
            while metric(url, "vllm:num_requests_running") == 0 and not answer.done():
                time.sleep(0.005)
            process.send_signal(signal.SIGTERM)
            assert answer.result(60).usage.completion_tokens == 300
        assert process.wait(30) == 0
