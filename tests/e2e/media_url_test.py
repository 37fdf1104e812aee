"""Pictures that requests name by URL: fetched under --allowed-media-domains and --allowed-local-media-path, and under limits."""
import http.server
import threading
import time

import pytest
from image_models import edit, png, post, SHAPES

SOURCE = png(64, 64, lambda x, y: (x * 4, y * 4, 0))
FAST = {"num_inference_steps": 2, "max_sequence_length": 32, "prompt": "a red circle"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        name = self.path.strip("/")
        if name.startswith("hop"):
            self.send_response(302)
            self.send_header("Location", f"/hop{int(name[3:]) - 1}" if name != "hop0" else "/picture.png")
        elif name == "elsewhere":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/picture.png")
        else:
            self.send_response(404 if name == "none" else 200)
        self.end_headers()
        try:
            {"picture.png": self.picture, "slow": self.slow, "endless": self.endless}.get(name, lambda: None)()
        except (BrokenPipeError, ConnectionResetError):
            self.server.left.append(name)

    def picture(self):
        self.wfile.write(SOURCE)

    def slow(self):
        for _ in range(60):
            self.wfile.write(b"x")
            time.sleep(0.5)

    def endless(self):
        while True:
            self.wfile.write(b"x" * (1 << 20))

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def pictures():
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.left = []
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    yield listener
    listener.shutdown()


@pytest.fixture(scope="module")
def base(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("media")
    (folder / "a.png").write_bytes(SOURCE)
    with serve(SHAPES, "--allowed-media-domains", "127.0.0.1", "--allowed-local-media-path", folder, "--disable-access-log") as (url, _, _):
        yield url, folder


def ask(base, address):
    content = [{"type": "text", "text": "a red circle"}, {"type": "image_url", "image_url": {"url": address}}]
    return post(base + "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **FAST})


def test_pictures_are_fetched_by_both_routes(base, pictures):
    address = f"http://127.0.0.1:{pictures.server_address[1]}"
    for path in ("/picture.png", "/hop0", "/hop2"):
        assert ask(base[0], address + path)[0] == 200
    assert edit(base[0], {"url": address + "/picture.png", **FAST})[0] == 200
    assert ask(base[0], f"file://{base[1]}/a.png")[0] == 200


@pytest.mark.parametrize("path,named", [("/none", "status 404"), ("/hop9", "redirects"), ("/empty", "image_url"), ("/endless", "bytes"),
                                        ("/elsewhere", "--allowed-media-domains")])
def test_f068_what_does_not_give_a_picture_is_refused(base, pictures, path, named):
    status, body = ask(base[0], f"http://127.0.0.1:{pictures.server_address[1]}{path}")
    assert status == 400 and named in body["error"]["message"], body
    assert body["error"]["param"] == "body.messages.0.content.1.image_url"


def test_f068_slow_senders_hold_nobody_up(base, pictures):
    address = f"http://127.0.0.1:{pictures.server_address[1]}"
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(base[0], address + "/slow"))) for _ in range(4)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    assert ask(base[0], address + "/picture.png")[0] == 200
    assert time.monotonic() - start < 8, "a quick picture waited for slow ones"
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [400] * 4 and time.monotonic() - start < 20
