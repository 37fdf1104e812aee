"""--transformer: one file in place of a pipeline's transformer folder, under the names of the model's makers."""
import json
import re
import struct

import pytest

from image_models import PROMPT, SHAPES

FAST = ["--prompt", PROMPT, "--size", "64x64", "--num-inference-steps", 2, "--max-sequence-length", 32, "--seed", 3, "--quiet"]
FUSED = {"img_attn.qkv": ["attn.to_q", "attn.to_k", "attn.to_v"], "txt_attn.qkv": ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"],
         "img_attn.proj": ["attn.to_out.0"], "txt_attn.proj": ["attn.to_add_out"], "img_mod.lin": ["norm1.linear"],
         "txt_mod.lin": ["norm1_context.linear"], "img_mlp.0": ["ff.net.0.proj"], "img_mlp.2": ["ff.net.2"],
         "txt_mlp.0": ["ff_context.net.0.proj"], "txt_mlp.2": ["ff_context.net.2"], "img_attn.norm.query_norm": ["attn.norm_q"],
         "img_attn.norm.key_norm": ["attn.norm_k"], "txt_attn.norm.query_norm": ["attn.norm_added_q"],
         "txt_attn.norm.key_norm": ["attn.norm_added_k"]}
SINGLE = {"linear1": ["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"], "linear2": ["proj_out"], "modulation.lin": ["norm.linear"],
          "norm.query_norm": ["attn.norm_q"], "norm.key_norm": ["attn.norm_k"]}
OUTER = {"img_in": "x_embedder", "txt_in": "context_embedder", "final_layer.linear": "proj_out",
         **{f"{a}_in.{b}_layer": f"time_text_embed.{c}_embedder.linear_{n}" for a, c in (("time", "timestep"), ("guidance", "guidance"),
                                                                                     ("vector", "text")) for b, n in (("in", 1), ("out", 2))}}


def read_tensors(folder):
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, row in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = row["data_offsets"]
                out[name] = (row["dtype"], row["shape"], data[8 + size + begin:8 + size + end])
    return out


def fused(tensors, layers, suffix):
    parts = [tensors[f"{layer}.{suffix}"] for layer in layers]
    return parts[0][0], [sum(p[1][0] for p in parts), *parts[0][1][1:]], b"".join(p[2] for p in parts)


def makers_names(tensors):
    out = {}
    for name in tensors:
        match = re.match(r"(single_)?transformer_blocks\.(\d+)\.", name)
        if match:
            table, list_ = (SINGLE, "single_blocks") if match[1] else (FUSED, "double_blocks")
            for original, layers in table.items():
                for suffix in ("weight", "bias"):
                    if name == f"{match[0]}{layers[0]}.{suffix}":
                        kept = "scale" if original.endswith("_norm") else suffix
                        out[f"{list_}.{match[2]}.{original}.{kept}"] = fused(tensors, [match[0] + layer for layer in layers], suffix)
    for original, layer in OUTER.items():
        for suffix in ("weight", "bias"):
            out[f"{original}.{suffix}"] = tensors[f"{layer}.{suffix}"]
    for suffix in ("weight", "bias"):
        dtype, shape, data = tensors[f"norm_out.linear.{suffix}"]
        out[f"final_layer.adaLN_modulation.1.{suffix}"] = dtype, shape, data[len(data) // 2:] + data[:len(data) // 2]
    assert sum(len(t[2]) for t in out.values()) == sum(len(t[2]) for t in tensors.values())
    return out


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "flux1-shapes.safetensors"
    write_tensors(path, makers_names(read_tensors(SHAPES / "transformer")))
    return path


def test_one_file_draws_what_the_folder_draws(run, one_file, tmp_path):
    from PIL import Image
    run("generate", SHAPES, *FAST, "-o", tmp_path / "folder.png")
    run("generate", SHAPES, *FAST, "--transformer", one_file, "-o", tmp_path / "file.png")
    folder, file = (Image.open(tmp_path / name) for name in ("folder.png", "file.png"))
    assert folder.tobytes() == file.tobytes()
    assert folder.text["model_hash"] != file.text["model_hash"]


def test_what_is_no_such_file_is_refused(run, one_file, tmp_path):
    for file, said in ((tmp_path / "none.gguf", "none.gguf: is no file"), (SHAPES / "README.md", "is .gguf or .safetensors")):
        done = run("generate", SHAPES, *FAST, "--transformer", file, "-o", tmp_path / "x.png", status=None)
        assert done.returncode in (1, 2) and said in done.stderr, done.stderr
    broken = tmp_path / "odd.safetensors"
    write_tensors(broken, {"double_blocks.0.img_attn.qkv.weight": ("F32", [6, 2], bytes(48)), "odd.weight": ("F32", [1], bytes(4))})
    done = run("generate", SHAPES, *FAST, "--transformer", broken, "-o", tmp_path / "x.png", status=1)
    assert "'odd.weight' has no place in this transformer" in done.stderr
