"""What the tests of picture models share: the small model of shapes, requests, and pictures in bytes."""
import json
import pathlib
import re
import struct
import urllib.error
import urllib.request
import zlib

SHAPES = pathlib.Path(__file__).resolve().parent.parent.parent / "models" / "shapes-flux"
# Written by Pillow: tests/golden/media/make_pictures.py.
PICTURES = pathlib.Path(__file__).resolve().parent.parent / "golden" / "media" / "pictures"
PROMPT = "a red circle left of a green square on a white background"


def png(width, height, pixel=lambda x, y: (255, 0, 0)):
    """A PNG of 8-bit RGB, or RGBA where `pixel` gives four values."""
    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))
    kind = {3: 2, 4: 6}[len(pixel(0, 0))]
    return png_of_chunks((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)), (b"IDAT", zlib.compress(rows)))


def png_of_chunks(*chunks):
    out = b"\x89PNG\r\n\x1a\n"
    for name, data in (*chunks, (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return out


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def post(url, body, content_type="application/json", timeout=120):
    """Status and parsed body, whatever the status."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    request = urllib.request.Request(url, data, {"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def resident_bytes(pid):
    """What a process holds in memory now."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024


def form(fields, files):
    """The body and the content type of a form. `files`: (field, bytes) each."""
    lines = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    lines += [f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="f"\r\n\r\n'.encode() + data + b"\r\n"
              for name, data in files]
    return b"".join(lines) + b"--x--\r\n", "multipart/form-data; boundary=x"


def edit(base, fields, *files):
    return post(base + "/v1/images/edits", *form({"prompt": PROMPT, "num_inference_steps": 2, "max_sequence_length": 32, **fields},
                                                files))
