"""quaver pull against a hub on loopback that breaks off, lies and refuses; the cache it leaves, read by huggingface_hub."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
import urllib.request

import huggingface_hub
import pytest

from fake_hub import FakeHub, breaking, checksum, entry, send, stalling, status

REPO = "org/name"
WEIGHTS = random.Random(1).randbytes(300_000)
FILES = {"config.json": b"{}", "tokenizer.json": b'{"a": 1}', "model.safetensors": WEIGHTS, "deep/er/notes.txt": b"hello\n"}


@pytest.fixture
def hub():
    fake = FakeHub()
    fake.commit = fake.add(REPO, FILES)
    yield fake
    fake.close()


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def environment(hub, home):
    """Only what a test sets: empty counts as unset."""
    names = ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
    return {**{name: "" for name in names}, "HF_HOME": str(home), "HF_ENDPOINT": hub.url, "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1"}


@pytest.fixture
def pull(run, environment):
    def call(*arguments, status=0, **more):
        return run("pull", *arguments, "--quiet", status=status, timeout=120, env={**environment, **more})
    return call


@pytest.fixture
def start(binary, environment):
    """Starts a pull and does not wait for it."""
    def call(*arguments):
        return subprocess.Popen([str(binary), "pull", *arguments, "--quiet"], env={**os.environ, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return call


def folder(home, repo=REPO):
    return home / "hub" / ("models--" + repo.replace("/", "--"))


def check_snapshot(home, commit, files=FILES):
    snapshot = folder(home) / "snapshots" / commit
    found = {str(p.relative_to(snapshot)): p.read_bytes() for p in snapshot.rglob("*") if p.is_file()}
    assert found == files
    for path, data in files.items():
        link = snapshot / path
        assert link.is_symlink() and not os.path.isabs(os.readlink(link))
        assert link.resolve() == (folder(home) / "blobs" / checksum(path, data)).resolve()


def incomplete(home):
    return sorted(folder(home).glob("blobs/*.incomplete"))


def nothing_to_load(home):
    return not (folder(home) / "refs" / "main").exists() and not (folder(home) / "snapshots").exists()


def test_a_fresh_pull_and_what_huggingface_hub_sees(hub, home, pull):
    done = pull(REPO)
    snapshot = folder(home) / "snapshots" / hub.commit
    assert done.stdout == f"{snapshot}\n"
    assert (folder(home) / "refs" / "main").read_text() == hub.commit
    check_snapshot(home, hub.commit)
    assert not incomplete(home)
    cache = home / "hub"
    for name in FILES:
        assert huggingface_hub.try_to_load_from_cache(REPO, name, cache_dir=cache) == str(snapshot / name)
    assert huggingface_hub.snapshot_download(REPO, cache_dir=cache, local_files_only=True) == str(snapshot)
    scan = huggingface_hub.scan_cache_dir(cache)
    assert not scan.warnings
    (repo,) = scan.repos
    (revision,) = repo.revisions
    assert repo.repo_id == REPO and revision.commit_hash == hub.commit and revision.refs == {"main"}
    assert {f.file_name for f in revision.files} == {os.path.basename(name) for name in FILES}


def test_what_huggingface_hub_downloaded_is_not_downloaded_again(hub, home, pull):
    for name in FILES:
        huggingface_hub.hf_hub_download(REPO, name, cache_dir=home / "hub", endpoint=hub.url)
    hub.requests.clear()
    pull(REPO)
    assert not hub.bodies()
    check_snapshot(home, hub.commit)


def test_a_second_pull_asks_for_the_list_alone(hub, pull):
    pull(REPO)
    hub.requests.clear()
    pull(REPO)
    assert [r.path for r in hub.requests] == [f"/api/models/{REPO}/revision/main?blobs=true"]


def test_a_moved_branch_keeps_what_did_not_change(hub, home, pull):
    pull(REPO)
    changed = {**FILES, "config.json": b'{"new": true}'}
    commit = hub.add(REPO, changed)
    hub.requests.clear()
    pull(REPO)
    assert len(hub.bodies()) == 1
    check_snapshot(home, commit, changed)
    check_snapshot(home, hub.commit)


def test_revisions(hub, home, pull):
    commit = hub.add(REPO, {"config.json": b"old"}, "refs/pr/7")
    pull(REPO, "--revision", "refs/pr/7")
    check_snapshot(home, commit, {"config.json": b"old"})
    assert (folder(home) / "refs/refs/pr/7").read_text() == commit
    pull(f"{REPO}@{hub.commit}")
    check_snapshot(home, hub.commit)
    assert not (folder(home) / "refs/main").exists()


def test_a_broken_connection_is_continued_where_it_broke(hub, home, pull):
    hub.once(checksum("model.safetensors", WEIGHTS), breaking(WEIGHTS, 100_000))
    hub.once(checksum("model.safetensors", WEIGHTS), breaking(WEIGHTS, 50_000))
    done = pull(REPO)
    assert [r.range for r in hub.requests if r.server == "store"] == [None, "bytes=100000-", "bytes=150000-"]
    assert "trying again" in done.stderr
    check_snapshot(home, hub.commit)


def test_a_stalled_connection_is_continued(hub, home, pull):
    hub.once(checksum("model.safetensors", WEIGHTS), stalling(WEIGHTS, 1000, 30))
    pull(REPO, HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert [r.range for r in hub.requests if r.server == "store"] == [None, "bytes=1000-"]
    check_snapshot(home, hub.commit)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_pull_is_continued_by_the_next(hub, home, pull, start, number):
    hub.once(checksum("model.safetensors", WEIGHTS), stalling(WEIGHTS, 123_456, 30))
    process = start(REPO)
    deadline = time.monotonic() + 60
    while not any(p.stat().st_size == 123_456 for p in incomplete(home)):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(30) != 0
    assert nothing_to_load(home)
    pull(REPO)
    assert [r.range for r in hub.requests if r.server == "store"] == [None, "bytes=123456-"]
    check_snapshot(home, hub.commit)


def test_a_server_without_ranges_is_read_from_the_start(hub, home, pull):
    hub.once(checksum("model.safetensors", WEIGHTS), breaking(WEIGHTS, 1000))
    hub.once(checksum("model.safetensors", WEIGHTS), send(WEIGHTS))
    pull(REPO)
    check_snapshot(home, hub.commit)


def test_a_server_that_always_breaks_is_given_up(hub, home, pull):
    for _ in range(10):
        hub.once(checksum("model.safetensors", WEIGHTS), lambda handler: breaking(WEIGHTS, 1000)(without_range(handler)))
    failed = pull(REPO, status=1)
    assert "5 attempts in a row" in failed.stderr and "model.safetensors" in failed.stderr
    assert nothing_to_load(home)


def without_range(handler):
    del handler.headers["Range"]
    return handler


@pytest.mark.parametrize("body", [WEIGHTS[:-1], WEIGHTS + b"x", b""])
def test_a_wrong_size_is_named(hub, home, pull, body):
    hub.once(checksum("model.safetensors", WEIGHTS), send(body))
    failed = pull(REPO, status=1)
    assert f"has {len(body)} bytes, expected {len(WEIGHTS)}" in failed.stderr and "model.safetensors" in failed.stderr
    assert nothing_to_load(home)


def test_a_body_longer_than_promised_by_the_list_ends_at_once(hub, home, pull):
    def endless(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            handler.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
    hub.once(checksum("model.safetensors", WEIGHTS), endless)
    failed = pull(REPO, status=1)
    assert f"more than the expected {len(WEIGHTS)} bytes" in failed.stderr
    assert not incomplete(home) and nothing_to_load(home)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_wrong_checksum_is_named_and_nothing_kept(hub, home, pull, name):
    data = FILES[name]
    fault = send(bytes([data[0] ^ 1]) + data[1:])
    hub.once(checksum(name, data) if name == "model.safetensors" else f"/{name}", fault)
    failed = pull(REPO, status=1)
    assert name in failed.stderr and f"expected {checksum(name, data)}" in failed.stderr
    assert not incomplete(home) and nothing_to_load(home)
    pull(REPO)
    check_snapshot(home, hub.commit)


def test_a_bad_beginning_left_by_somebody_is_replaced(hub, home, pull):
    blobs = folder(home) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / (checksum("model.safetensors", WEIGHTS) + ".incomplete")).write_bytes(b"wrong")
    done = pull(REPO)
    assert "starting over" in done.stderr
    check_snapshot(home, hub.commit)


def test_401_names_the_variable_and_a_token_helps(hub, home, pull):
    hub.token = "hf_secret"
    failed = pull(REPO, status=1)
    assert "401" in failed.stderr and "HF_TOKEN" in failed.stderr and REPO in failed.stderr
    failed = pull(REPO, status=1, HF_TOKEN="wrong")
    assert "the token in HF_TOKEN" in failed.stderr and "wrong" not in failed.stderr
    pull(REPO, HF_TOKEN="hf_secret")
    check_snapshot(home, hub.commit)


def test_the_token_stays_with_the_hub(hub, home, pull):
    hub.token = "hf_secret"
    pull(REPO, "--token", "hf_secret")
    assert {r.token for r in hub.requests if r.server == "hub"} == {"Bearer hf_secret"}
    assert [r.token for r in hub.requests if r.server == "store"] == [None]
    check_snapshot(home, hub.commit)


def test_the_token_of_a_login_is_used(hub, home, pull):
    hub.token = "hf_login"
    home.mkdir()
    (home / "token").write_text("hf_login\n")
    pull(REPO)
    check_snapshot(home, hub.commit)


def test_a_renamed_repository_is_followed(hub, home, pull):
    hub.once("/api/models/old/name", status(307, Location=f"/api/models/{REPO}/revision/main?blobs=true"))
    for name in FILES:
        hub.once(f"/old/name/resolve/{hub.commit}/{name}", status(307, Location=f"/{REPO}/resolve/{hub.commit}/{name}"))
    pull("old/name")
    assert (home / "hub/models--old--name/snapshots" / hub.commit / "model.safetensors").read_bytes() == WEIGHTS


def test_redirects_without_end(hub, pull):
    for _ in range(20):
        hub.once("/api/models", status(302, Location="/api/models/x"))
    assert "redirects more than" in pull(REPO, status=1).stderr


def test_403_says_where_to_ask_for_access(hub, pull):
    hub.once("model.safetensors", status(403, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted."))
    failed = pull(REPO, status=1)
    assert f"{hub.url}/{REPO}" in failed.stderr and "HF_TOKEN" in failed.stderr and "Access is restricted." in failed.stderr


def test_404_names_repository_and_revision(hub, pull):
    assert "no model no/such" in pull("no/such", status=1).stderr
    assert f"{REPO}: {hub.url} has no revision v9" in pull(REPO, "--revision", "v9", status=1).stderr
    hub.once("config.json", status(404))
    failed = pull(REPO, status=1)
    assert "has no file 'config.json' in revision main" in failed.stderr


def test_429_waits_as_long_as_it_is_told(hub, home, pull):
    hub.once("/api/models", status(429, Retry_After=2))
    begin = time.monotonic()
    done = pull(REPO)
    assert time.monotonic() - begin >= 2 and "429" in done.stderr
    check_snapshot(home, hub.commit)


def test_429_for_an_hour_is_given_up_at_once(hub, pull):
    hub.once("/api/models", status(429, Retry_After=3600))
    assert "in 3600 seconds" in pull(REPO, status=1).stderr


def test_500_and_503_are_tried_again(hub, home, pull):
    hub.once("/api/models", status(500))
    hub.once("config.json", status(503))
    hub.once(checksum("model.safetensors", WEIGHTS), status(502))
    pull(REPO)
    check_snapshot(home, hub.commit)


def test_nobody_listens(pull):
    failed = pull(REPO, status=1, HF_ENDPOINT="http://127.0.0.1:9")
    assert "127.0.0.1:9" in failed.stderr and REPO in failed.stderr


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside", "..", ""])
def test_file_names_that_leave_the_folder_are_refused(hub, home, pull, tmp_path, name):
    hub.listing = lambda path, data: {**entry(path, data), **({"rfilename": name} if path == "config.json" else {})}
    failed = pull(REPO, status=1)
    assert "file name" in failed.stderr and not hub.bodies()
    assert nothing_to_load(home) and not (tmp_path / "outside").exists()


def test_a_commit_that_is_a_path_is_refused(hub, home, pull):
    hub.once("/api/models", send(json.dumps({"sha": "../../../x", "siblings": []}).encode()))
    assert "commit" in pull(REPO, status=1).stderr


def test_an_answer_that_is_no_list_is_refused(hub, pull):
    hub.once("/api/models", send(b"<html>please log in</html>"))
    assert "list of files" in pull(REPO, status=1).stderr


def test_a_mirror_that_lists_names_only_is_asked_file_by_file(hub, home, pull):
    hub.listing = lambda path, data: {"rfilename": path}
    pull(REPO)
    assert sorted(r.path.split(hub.commit + "/")[1] for r in hub.requests if r.method == "HEAD") == sorted(FILES)
    check_snapshot(home, hub.commit)


def test_what_can_not_be_verified_is_refused(hub, pull):
    hub.listing = lambda path, data: {"rfilename": path}
    hub.once("config.json", lambda handler: handler.answer(200, {"ETag": '"5f3a-62a1"'}, b"{}"))
    assert "could not be verified" in pull(REPO, status=1).stderr


def test_a_model_larger_than_the_disk_is_refused_before_it_begins(hub, home, pull):
    def huge(path, data):
        row = entry(path, data)
        if "lfs" in row:
            row["lfs"]["size"] = 10**15
        return row
    hub.listing = huge
    failed = pull(REPO, status=1)
    assert "1000000.000 GB" in failed.stderr and "free" in failed.stderr and not hub.bodies()


def test_files_that_are_not_needed_are_left_out_and_named(hub, home, pull):
    files = {**FILES, "pytorch_model.bin": b"pickle", "onnx/model.onnx": b"onnx", "model-q4.gguf": b"GGUF"}
    commit = hub.add(REPO, files)
    done = pull(REPO)
    check_snapshot(home, commit)
    for name in ("pytorch_model.bin", "onnx/model.onnx", "model-q4.gguf"):
        assert name in done.stderr
    pull(REPO, "--include", "*.bin", "--include", "*.gguf", "--include", "*.json", "--exclude", "t*.json")
    assert {p.name for p in (folder(home) / "blobs").iterdir()} == \
        {checksum(n, d) for n, d in files.items() if n != "onnx/model.onnx"}
    pull(REPO, "--include", "*", "--exclude", "onnx/*")
    check_snapshot(home, commit, {name: data for name, data in files.items() if name != "onnx/model.onnx"})


def test_one_gguf_of_several(hub, home, pull):
    commit = hub.add("org/many", {"m-Q4_0.gguf": b"GGUF4", "m-Q8_0.gguf": b"GGUF8"})
    failed = pull("org/many", status=2)
    assert "m-Q4_0.gguf" in failed.stderr and "m-Q8_0.gguf" in failed.stderr
    done = pull("org/many:m-Q8_0.gguf")
    path = folder(home, "org/many") / "snapshots" / commit / "m-Q8_0.gguf"
    assert done.stdout == f"{path}\n" and path.read_bytes() == b"GGUF8"
    assert len(list(path.parent.iterdir())) == 1


def test_offline_uses_the_cache_alone(hub, home, pull):
    failed = pull(REPO, status=1, HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE" in failed.stderr and not hub.requests
    pull(REPO)
    hub.requests.clear()
    done = pull(REPO, HF_HUB_OFFLINE="1")
    assert done.stdout == f"{folder(home) / 'snapshots' / hub.commit}\n" and not hub.requests


def test_another_cache_folder(hub, pull, tmp_path):
    pull(REPO, HF_HUB_CACHE=str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere/models--org--name/snapshots" / hub.commit / "config.json").read_bytes() == b"{}"


def test_two_pulls_at_once_download_each_file_once(hub, home, start):
    digest = checksum("model.safetensors", WEIGHTS)
    hub.once(digest, lambda handler: (time.sleep(1), handler.send_range(WEIGHTS)))
    both = [start(REPO) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert sorted(r.path.split("/")[-1] for r in hub.bodies() if r.server == "hub") == sorted(map(os.path.basename, FILES))
    assert len([r for r in hub.requests if r.server == "store"]) == 1
    check_snapshot(home, hub.commit)


@pytest.mark.parametrize("arguments", [[], ["not an id"], ["../x"], ["a/b/c"], ["a/b", "--revision", "../x"],
                                       ["a/b", "--no-such-flag"], ["a/b", "--token", "a\nb"]])
def test_wrong_usage_is_status_2(hub, pull, arguments):
    assert pull(*arguments, status=2).stderr and not hub.requests


def test_every_command_takes_a_repository(hub, home, run, environment, tiny_model):
    files = {p.name: p.read_bytes() for p in tiny_model.iterdir()}
    commit = hub.add("org/tiny", files)
    first = run("inspect", "org/tiny", "--json", env=environment)
    assert json.loads(first.stdout)["layers"] == 4 and hub.url in first.stderr
    hub.requests.clear()
    run("generate", "org/tiny", "--prompt", "a", "--max-tokens", 2, env=environment)
    run("generate", f"org/tiny@{commit}", "--prompt", "a", "--max-tokens", 2, env={**environment, "HF_HUB_OFFLINE": "1"})
    assert not hub.requests
    failed = run("inspect", "org/tiny/", status=1, env=environment)
    assert "nor a repository id" in failed.stderr
    failed = run("inspect", "no/such", status=1, env=environment)
    assert "no folder or file here" in failed.stderr and "no model no/such" in failed.stderr


def test_what_other_programs_left_half_is_completed(hub, run, environment, home, tiny_model):
    hub.add("org/tiny", {p.name: p.read_bytes() for p in tiny_model.iterdir()})
    huggingface_hub.hf_hub_download("org/tiny", "config.json", cache_dir=home / "hub", endpoint=hub.url)
    assert json.loads(run("inspect", "org/tiny", "--json", env=environment).stdout)["layers"] == 4


def test_without_the_hub_a_model_without_tokenizer_is_still_taken_from_the_cache(hub, run, environment, tiny_model):
    hub.add("org/bare", {name: (tiny_model / name).read_bytes() for name in ("config.json", "model.safetensors")})
    run("pull", "org/bare", env=environment)
    done = run("inspect", "org/bare", "--json", env={**environment, "HF_ENDPOINT": "http://127.0.0.1:9"})
    assert json.loads(done.stdout)["layers"] == 4 and "going on with what the cache holds" in done.stderr


def test_a_served_repository_is_called_by_its_id(hub, serve, environment, tiny_model, monkeypatch):
    hub.add("org/tiny", {p.name: p.read_bytes() for p in tiny_model.iterdir()})
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with serve("org/tiny", "--disable-access-log") as (url, _, _):
        assert json.load(urllib.request.urlopen(url + "/v1/models"))["data"][0]["id"] == "org/tiny"


def test_a_cache_that_has_all_need_not_be_writable(hub, home, pull):
    pull(REPO)
    shutil.rmtree(home / "hub/.locks")
    (home / "hub/.locks").write_text("in the way")  # root may write anywhere, but not below a file
    pull(REPO)
