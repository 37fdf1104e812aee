"""The real model answers as Transformers does, token by token: from the GGUF and from the folder made of it."""
import json
import urllib.request

import pytest
from conftest import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/smollm2/greedy.json").read_text())


@pytest.fixture(scope="module")
def bf16_folder(run, smollm2, tmp_path_factory):
    folder = tmp_path_factory.mktemp("smollm2") / "bf16"
    run("convert", smollm2, "--to", "bf16", "--output", folder)
    return folder


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=300))


def ask(url, row):
    options = {"temperature": 0, "max_tokens": GOLDEN["max_new_tokens"], "return_token_ids": True}
    return post(url + "/v1/chat/completions", {"messages": [{"role": "user", "content": row["prompt"]}], **options})


def compare(url):
    for row in GOLDEN["outputs"]:
        answer = ask(url, row)
        assert answer["prompt_token_ids"] == row["prompt_ids"], row["prompt"]
        assert answer["choices"][0]["token_ids"] == row["output_ids"], row["prompt"]
        assert answer["choices"][0]["message"]["content"] == row["output_text"]


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_the_folder_answers_as_transformers(serve, bf16_folder, prefix_caching):
    flags = [] if prefix_caching else ["--no-enable-prefix-caching"]
    with serve(bf16_folder, "--dtype", "float32", *flags) as (url, _, _):
        compare(url)


def test_the_gguf_answers_as_transformers(serve, smollm2):
    with serve(smollm2, "--dtype", "float32") as (url, _, _):
        compare(url)
