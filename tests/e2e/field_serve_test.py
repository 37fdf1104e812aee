"""Reported faults of serving, named by their ids: docs/field-cases.md."""
import concurrent.futures
import json
import shutil
import urllib.error
import urllib.request

import openai
import pytest


@pytest.fixture(scope="module")
def server(serve, tiny_model):
    with serve(tiny_model, "--max-num-seqs", 8, "--disable-access-log") as (url, _, _):
        yield url


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server + "/v1", api_key="unused", max_retries=0)


def post(url, body):
    def strict(name):
        raise ValueError(f"{name} is no JSON")
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.loads(answer.read(), parse_constant=strict)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read(), parse_constant=strict)


def metric(url, name):
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def chat(url, **more):
    return post(url + "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 12,
                                               **more})


def complete(url, **more):
    return post(url + "/v1/completions", {"prompt": "hello", "temperature": 0, "max_tokens": 12, **more})


def own_template(model, folder, **files):
    """Copies the model with these template files alone; `config` goes into tokenizer_config.json."""
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").unlink()
    if "jinja" in files:
        (folder / "chat_template.jinja").write_text(files["jinja"])
    if "json" in files:
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": files["json"]}))
    if "config" in files:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": files["config"]}))


@pytest.mark.parametrize("files,shown", [({"jinja": "J"}, "J"), ({"json": "N"}, "N"), ({"config": "C"}, "C"),
                                         ({"jinja": "J", "config": "C"}, "J"), ({"json": "N", "config": "C"}, "N")])
def test_f028_the_template_is_found_and_a_file_of_its_own_wins(serve, tiny_model, tmp_path, files, shown):
    own_template(tiny_model, tmp_path / "m", **files)
    with serve(tmp_path / "m") as (url, _, _):
        _, answer = chat(url, return_prompt_text=True, return_token_ids=True)
        _, text = post(url + "/detokenize", {"tokens": answer["prompt_token_ids"]})
    assert text["prompt"] == shown


def test_f028_without_a_template_only_completions_work(serve, tiny_model, tmp_path):
    own_template(tiny_model, tmp_path / "m")
    with serve(tmp_path / "m") as (url, _, _):
        status, answer = chat(url)
        assert status == 400 and "template" in answer["error"]["message"]
        assert complete(url)[0] == 200


def test_f079_a_stop_string_ends_the_text_just_before_itself(server):
    whole = complete(server, max_tokens=20)[1]["choices"][0]["text"]
    for stop in (whole[4:7], whole, ["never seen", whole[6:8], whole[9:]]):
        first, hit = min((whole.find(s), s) for s in ([stop] if isinstance(stop, str) else stop) if s in whole)
        for more, kept in (({}, whole[:first]), ({"include_stop_str_in_output": True}, whole[:first] + hit)):
            choice = complete(server, max_tokens=20, stop=stop, **more)[1]["choices"][0]
            assert choice["finish_reason"] == "stop" and choice["text"] == kept


REQUEST = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "seed": 5}
ENDINGS = {"length": ({}, "length"), "eos": ({"logit_bias": {"257": 100}}, "stop"),
           "stop": ({"logit_bias": {"32": 100}, "stop": ["AAA"]}, "stop")}  # token 32 is A


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("stream_options", [None, {}, {"include_usage": True}, {"include_usage": False}])
@pytest.mark.parametrize("ending", ENDINGS)
def test_f086_how_a_stream_ends(server, client, n, stream_options, ending):
    flags, reason = ENDINGS[ending]
    more = {} if stream_options is None else {"stream_options": stream_options}
    request = {"model": client.models.list().data[0].id, "n": n, **REQUEST, **flags}
    seen = list(client.chat.completions.create(**request, stream=True, **more))
    ends = {}
    for event in seen:
        for choice in event.choices:
            assert choice.index not in ends, "an event after the finish"
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
                assert not choice.delta.content
    assert ends == dict.fromkeys(range(n), reason)
    wanted = bool(stream_options and stream_options.get("include_usage"))
    assert [bool(event.usage) for event in seen] == [False] * (len(seen) - wanted) + [True] * wanted
    if wanted:
        assert seen[-1].choices == [] and seen[-1].usage == client.chat.completions.create(**request).usage


def test_f085_no_infinity_reaches_a_client(server):
    first = chat(server, max_tokens=1, allowed_token_ids=[65, 66], return_token_ids=True)[1]["choices"][0]["token_ids"][0]
    for more in ({"top_logprobs": 20, "allowed_token_ids": [65, 66]}, {"top_logprobs": 5, "allowed_token_ids": [65, 66], "logit_bias": {str(first): -100}},
                 {"top_logprobs": 5, "top_k": 1, "temperature": 1}):
        status, answer = chat(server, logprobs=True, max_tokens=2, **more)
        assert status == 200 and answer["choices"][0]["logprobs"]["content"]
    assert complete(server, echo=True, logprobs=1, top_k=1, temperature=1)[0] == 200


BAD = [("logit_bias", {"384": 1}), ("logit_bias", {"-1": 1}), ("logit_bias", {"AI": -100}), ("stop_token_ids", [151645]),
       ("stop_token_ids", list(range(2000))), ("allowed_token_ids", [384] * 2000), ("prompt", ""), ("prompt", []), ("prompt", [384]),
       ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", 2**40), ("max_tokens", 1.5), ("max_tokens", "5"), ("n", 0), ("n", 10**6),
       ("temperature", -1), ("temperature", "NaN"), ("top_p", 0), ("top_k", -2), ("stop", ""), ("stop", [""]), ("seed", 2**64)]


def test_f087_bad_numbers_are_named_and_harm_no_neighbour(server):
    def neighbour(_):
        return complete(server, max_tokens=60, ignore_eos=True)[1]["choices"][0]["text"]
    undisturbed = neighbour(0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        others = pool.map(neighbour, range(6))
        for field, value in BAD:
            status, answer = complete(server, **{field: value})
            assert status == 400 and field in str(answer["error"]["param"]), (field, value, answer)
        assert chat(server, messages=[])[0] == 400
        assert set(others) == {undisturbed}
    assert urllib.request.urlopen(server + "/health").status == 200


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'"text"', b"{", b"\xff\xfe"])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"])
def test_f088_bodies_that_are_no_request_get_an_error_object(server, route, body):
    request = urllib.request.Request(server + route, body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(request)
    assert failure.value.code == 400 and set(json.load(failure.value)["error"]) >= {"message", "type", "param", "code"}


@pytest.mark.parametrize("route", ["images/generations", "images/edits", "videos", "audio/speech", "embeddings"])
def test_f091_routes_of_other_models_say_what_is_missing(server, route):
    status, answer = post(server + "/v1/" + route, {"prompt": "x", "input": "x"})
    assert status == 404 and answer["error"]["message"]


def test_f096_what_is_permanent_is_not_retried(server):
    with openai.OpenAI(base_url=server + "/v1", api_key="unused") as client:
        before = metric(server, "http_requests_total") or None
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model=client.models.list().data[0].id, prompt="x", temperature=-1)
        if before is not None:
            assert metric(server, "http_requests_total") - before <= 3


def test_f096_a_full_queue_says_when_to_come_back(serve, tiny_model):
    with serve(tiny_model, "--max-num-seqs", 1, "--max-queue", 1) as (url, _, _):
        def ask(_):
            body = json.dumps({"prompt": "x", "max_tokens": 200, "ignore_eos": True}).encode()
            try:
                request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
                return urllib.request.urlopen(request, timeout=120).status, None
            except urllib.error.HTTPError as error:
                return error.code, error.headers["Retry-After"]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(16)))
    refused = [after for status, after in answers if status == 429]
    assert refused and all(int(after) > 0 for after in refused) and (200, None) in answers


@pytest.mark.parametrize("flags,hits", [(["--enable-prefix-caching"], True), (["--no-enable-prefix-caching"], False),
                                        (["--no-enable-prefix-caching", "--enable-prefix-caching"], True),
                                        (["--enable_prefix_caching", "--enable-chunked-prefill"], True)])
def test_switches_have_vllms_two_spellings(serve, tiny_model, flags, hits):
    with serve(tiny_model, *flags) as (url, _, _):
        for _ in range(2):
            complete(url, prompt="x" * 100, max_tokens=1)
        assert (metric(url, "vllm:prefix_cache_hits_total") > 0) == hits
