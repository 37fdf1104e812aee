"""What the end-to-end tests share: the binary, the real small model, a tiny one made on the spot, a running server."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from fetch_smollm2 import fetch  # noqa: E402

# A shell's background jobs ignore Ctrl-C and their children inherit that; the programs started here must not.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def binary():
    return pathlib.Path(os.environ["QUAVER_BINARY"])


@pytest.fixture(scope="session")
def smollm2():
    return fetch()


@pytest.fixture(scope="session")
def run(binary):
    """Runs a command; returns the finished process. `status` is what it must exit with; None = anything."""
    def call(*arguments, status=0, timeout=600, env=None):
        done = subprocess.run([str(binary), *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(env or {})})
        assert status in (None, done.returncode), f"{arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done
    return call


def save_byte_tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = ("{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
                               "{% if add_generation_prompt %}<s>assistant: {% endif %}")
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A random 4-layer model with a byte-level tokenizer, as Transformers saves it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    folder = tmp_path_factory.mktemp("tiny") / "model"
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=384, max_position_embeddings=512, tie_word_embeddings=True,
                         bos_token_id=256, eos_token_id=257)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_untied(tmp_path_factory):
    """As tiny_model with two layers and a head of its own."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    folder = tmp_path_factory.mktemp("tiny_untied") / "model"
    torch.manual_seed(4)
    config = LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=384, max_position_embeddings=512, tie_word_embeddings=False, bos_token_id=256, eos_token_id=257)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_moe(tmp_path_factory):
    """A random 2-layer mixture of 8 experts, one 2-D tensor each."""
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
    folder = tmp_path_factory.mktemp("tiny_moe") / "model"
    torch.manual_seed(2)
    config = Qwen3MoeConfig(hidden_size=128, intermediate_size=256, moe_intermediate_size=128, num_hidden_layers=2, num_experts=8,
                            num_experts_per_tok=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32, vocab_size=384,
                            max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=256, eos_token_id=257)
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_latent(tmp_path_factory):
    """A random 2-layer model with latent attention; the second layer has 4 experts in 2 groups and one for all tokens."""
    import torch
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
    folder = tmp_path_factory.mktemp("tiny_latent") / "model"
    torch.manual_seed(3)
    config = DeepseekV3Config(hidden_size=128, intermediate_size=256, moe_intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                              num_key_value_heads=4, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=32,
                              v_head_dim=32, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1,
                              vocab_size=384, max_position_embeddings=512, bos_token_id=256, eos_token_id=257)
    DeepseekV3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


@contextlib.contextmanager
def serving(binary, model, *flags, timeout=180):
    """A server on a port of its own choosing; yields its base URL and process."""
    log = subprocess.PIPE
    server = subprocess.Popen([str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", "0", *map(str, flags)],
                              stdout=log, stderr=subprocess.STDOUT, text=True)
    lines = []
    try:
        url = address_when_ready(server, lines, time.monotonic() + timeout)
        # Nobody reads the log further; a thread keeps the pipe from filling.
        threading.Thread(target=lambda: [lines.append(line) for line in server.stdout], daemon=True).start()
        yield url, server, lines
    finally:
        if server.poll() is None:
            server.terminate()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()


def address_when_ready(server, lines, deadline):
    """The base URL, once the server says that it is healthy; what it prints until then goes to `lines`."""
    url = None
    while url is None:
        assert time.monotonic() < deadline and server.poll() is None, "".join(lines)
        line = server.stdout.readline()
        lines.append(line)
        found = re.search(r"listening on (http://127\.0\.0\.1:\d+)", line)
        url = found.group(1) if found else None
    while True:
        assert time.monotonic() < deadline and server.poll() is None, "".join(lines)
        with contextlib.suppress(urllib.error.URLError, OSError):
            if urllib.request.urlopen(url + "/health", timeout=2).status == 200:
                return url
        time.sleep(0.05)


@pytest.fixture(scope="session")
def serve(binary):
    return lambda model, *flags, **options: serving(binary, model, *flags, **options)
