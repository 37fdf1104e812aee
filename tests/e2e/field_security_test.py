"""Reported faults of hostile files and requests, named by their ids: docs/field-cases.md."""
import http.server
import json
import shutil
import struct
import threading
import time
import urllib.error
import urllib.request

import pytest

@pytest.fixture(scope="module")
def server(serve, tiny_model):
    with serve(tiny_model, "--disable-access-log") as (url, _, _):
        yield url


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def canary():
    """A listener that must never be asked anything."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass
    listener = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield listener.server_address[1], asked
    listener.shutdown()


@pytest.mark.parametrize("part", ["image_url", "video_url", "audio_url"])
def test_f068_media_addresses_of_a_text_model_are_never_fetched(server, canary, part):
    port, asked = canary
    for address in (f"http://127.0.0.1:{port}/x.png", f"http://localhost:{port}/", f"http://0x7f000001:{port}/", "http://[::1]/",
                    "http://169.254.169.254/latest", "file:///etc/hostname", "ftp://127.0.0.1/x", "data:text/html,x"):
        content = [{"type": "text", "text": "what is this?"}, {"type": part, part: {"url": address}}]
        status, answer = post(server + "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 1})
        assert status == 400 and "messages" in answer["error"]["param"], answer
        assert "hostname" not in answer["error"]["message"].replace(address, "")
    assert asked == []


@pytest.mark.parametrize("template,named", [("{% include '/etc/hostname' %}", "include"), ("{% import 'os' as os %}", "import"),
                                            ("{% for m in messages %}{{ m.content ", "line 1"), ("x" * (1 << 20) + "x", "1048576")])
def test_f073_a_poisoned_template_ends_the_start(run, tiny_model, tmp_path, template, named):
    shutil.copytree(tiny_model, tmp_path / "m")
    (tmp_path / "m" / "chat_template.jinja").write_text(template)
    assert named in run("serve", tmp_path / "m", "--port", 0, status=1).stderr


def test_f073_values_have_no_host_objects(serve, tiny_model, tmp_path):
    shutil.copytree(tiny_model, tmp_path / "m")
    (tmp_path / "m" / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}")
    with serve(tmp_path / "m") as (url, _, _):
        status, answer = post(url + "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
    assert status == 400 and "__class__" in answer["error"]["message"], answer


def test_f076_constraints_are_refused_and_never_dropped(server):
    deep = {"type": "string"}
    for _ in range(12):
        deep = {"oneOf": [deep, deep]}
    before = time.monotonic()
    for schema in (deep, {"$ref": "#"}, {"type": "string", "pattern": "(a{100}){100}"}, {"type": "nothing"}, {"not": {}}):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        status, answer = post(server + "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}],
                                                               "max_tokens": 1, "response_format": form})
        assert status == 400 and "response_format" in answer["error"]["param"]
    assert time.monotonic() - before < 30
    assert post(server + "/v1/completions", {"prompt": "hi", "max_tokens": 1})[0] == 200


def gguf(keys):
    """keys: name -> (type id, payload bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for name, kind, payload in keys:
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + payload
    return out


def text(value):
    return struct.pack("<Q", len(value)) + value


def test_f077_nested_arrays_and_double_keys_are_refused(run, tmp_path):
    nested = struct.pack("<IQ", 9, 1) * 100000 + struct.pack("<IQ", 4, 0)
    (tmp_path / "nested.gguf").write_bytes(gguf([("a", 9, nested)]))
    twice = [("general.name", 8, text(b"x"))] * 2
    (tmp_path / "twice.gguf").write_bytes(gguf(twice))
    assert "nested.gguf" in run("inspect", tmp_path / "nested.gguf", status=1).stderr
    failed = run("inspect", tmp_path / "twice.gguf", status=1).stderr
    assert "twice.gguf" in failed and "general.name" in failed


def test_f077_a_large_honest_vocabulary_loads_fast(run, tmp_path):
    words = b"".join(text(b"word%d" % i) for i in range(256000))
    keys = [("general.architecture", 8, text(b"no-such-model")), ("tokenizer.ggml.model", 8, text(b"gpt2")),
            ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 256000) + words)]
    (tmp_path / "large.gguf").write_bytes(gguf(keys))
    before = time.monotonic()
    failed = run("inspect", tmp_path / "large.gguf", status=1)
    assert "no-such-model" in failed.stderr  # the header was read whole
    assert time.monotonic() - before < 20  # a second where nothing else runs
