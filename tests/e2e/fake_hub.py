"""A hub on loopback that behaves as the real one does, and misbehaves when told to."""
import collections
import contextlib
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

Request = collections.namedtuple("Request", "server method path range token")
LARGE = (".safetensors", ".gguf", ".bin", ".pth")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def checksum(path, data):
    return sha256(data) if path.endswith(LARGE) else git_sha1(data)


def entry(path, data):
    if not path.endswith(LARGE):
        return {"rfilename": path, "size": len(data), "blobId": git_sha1(data)}
    return {"rfilename": path, "size": len(data), "blobId": git_sha1(b"pointer"),
            "lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 7}}


class FakeHub:
    """Two servers: the hub, and the store to which it sends clients for large files, as another origin.

    `revisions` maps (repo, revision) to (commit, {path: bytes}). `faults` is a list of (text, function): the first whose
    text is in the path of a request is taken off and handles it in place of the hub.
    """
    def __init__(self):
        self.revisions, self.faults, self.requests, self.lock = {}, [], [], threading.Lock()
        self.listing = entry
        self.token = None  # when set, every request to the hub must carry it
        self.hub, self.store = self.start("hub"), self.start("store")
        self.url, self.store_url = (f"http://127.0.0.1:{s.server_address[1]}" for s in (self.hub, self.store))

    def start(self, name):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"fake": self, "name": name}))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def close(self):
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    def add(self, repo, files, revision="main"):
        commit = hashlib.sha1(f"{repo} {revision} {len(self.revisions)}".encode()).hexdigest()
        self.revisions[repo, revision] = self.revisions[repo, commit] = (commit, dict(files))
        return commit

    def once(self, text, fault):
        self.faults.append((text, fault))

    def take_fault(self, path):
        with self.lock:
            for i, (text, fault) in enumerate(self.faults):
                if text in path:
                    del self.faults[i]
                    return fault
        return None

    def find(self, digest):
        for _, files in self.revisions.values():
            for path, data in files.items():
                if checksum(path, data) == digest:
                    return data
        return None

    def bodies(self):
        """Requests for the content of files."""
        return [r for r in self.requests if r.method == "GET" and (r.server == "store" or "/resolve/" in r.path)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake = name = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.handle_request()

    def do_GET(self):
        self.handle_request()

    def handle_request(self):
        fake, path = self.fake, urllib.parse.unquote(self.path)
        bearer = self.headers.get("Authorization")
        with fake.lock:
            fake.requests.append(Request(self.name, self.command, path, self.headers.get("Range"), bearer))
        fault = fake.take_fault(path)
        with contextlib.suppress(ConnectionError):
            if fault:
                fault(self)
            elif self.name == "store":
                self.send_range(fake.find(path.split("/")[-1]))
            elif fake.token and bearer != f"Bearer {fake.token}":
                self.answer(401, {"X-Error-Message": "Invalid username or password."})
            elif path.startswith("/api/models/"):
                self.send_listing(*path.removeprefix("/api/models/").split("?")[0].split("/revision/"))
            else:
                self.send_file(*path[1:].split("/resolve/"))

    def send_listing(self, repo, revision):
        if (repo, revision) not in self.fake.revisions:
            known = any(name == repo for name, _ in self.fake.revisions)
            return self.answer(404, {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"})
        commit, files = self.fake.revisions[repo, revision]
        siblings = [self.fake.listing(path, data) for path, data in files.items()]
        self.answer(200, {}, json.dumps({"id": repo, "sha": commit, "siblings": siblings}).encode())

    def send_file(self, repo, rest):
        revision, _, path = rest.partition("/")
        commit, files = self.fake.revisions.get((repo, revision), (None, {}))
        if path not in files:
            return self.answer(404, {"X-Error-Code": "EntryNotFound"})
        data, digest = files[path], checksum(path, files[path])
        head = {"X-Repo-Commit": commit, "ETag": f'"{digest}"'}
        if not path.endswith(LARGE):
            return self.send_range(data, head)
        self.answer(302, {**head, "X-Linked-Etag": f'"{digest}"', "X-Linked-Size": len(data),
                          "Location": f"{self.fake.store_url}/{digest}"})

    def send_range(self, data, headers=()):
        asked = self.headers.get("Range")
        if not asked:
            return self.answer(200, headers, data)
        first = int(asked.removeprefix("bytes=").rstrip("-"))
        if first >= len(data):
            return self.answer(416)
        self.answer(206, {**dict(headers), "Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"}, data[first:])

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def status(code, **headers):
    """Answers with a status; header names take _ for -."""
    return lambda handler: handler.answer(code, {k.replace("_", "-"): v for k, v in headers.items()})


def send(body, **headers):
    return lambda handler: handler.answer(200, {k.replace("_", "-"): v for k, v in headers.items()}, body)


def break_off(handler, data, first, count):
    """Promises the rest of `data` from `first` on, sends `count` bytes of it and closes the connection."""
    handler.send_response(206 if first else 200)
    if first:
        handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
    handler.send_header("Content-Length", str(len(data) - first))
    handler.end_headers()
    handler.wfile.write(data[first:first + count])
    handler.wfile.flush()
    handler.close_connection = True


def breaking(data, count):
    def fault(handler):
        first = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        break_off(handler, data, first, count)
    return fault


def stalling(data, count, seconds):
    """Sends `count` bytes, then nothing for so long."""
    def fault(handler):
        break_off(handler, data, 0, count)
        time.sleep(seconds)
    return fault
