"""Writes what other programs make of the same values, for tests of writing GGUF (gguf 0.19.0, llama-cpp-python 0.3.36):

gguf_quantized.safetensors  `values` F32 [rows, 256] and, of each type, <type>.blocks (U8): Q4_0 to Q8_0, F16 and BF16 by gguf.quants,
                            Q4_K, Q5_K and Q6_K by ggml's reference quantizers without an importance matrix.
gguf_mix.json               the type that llama.cpp's own quantizer gives each tensor of small models, per mix: for each stem the
                            types of all layers, one after the other.
"""
import ctypes
import json
import pathlib
import tempfile

import gguf
import llama_cpp
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
BY_PACKAGE = [Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]
BY_GGML = {Type.Q4_K: "quantize_row_q4_K_ref", Type.Q5_K: "quantize_row_q5_K_ref", Type.Q6_K: "quantize_row_q6_K_ref"}
MIXES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q4_K_M": 15, "Q6_K": 18, "F16": 1, "BF16": 32}


def rows() -> np.ndarray:
    rng = np.random.default_rng(11)
    normal = rng.standard_normal((10, 256))
    normal[1] *= 0.02
    normal[2, ::37] *= 30  # outliers
    normal[3] = np.abs(normal[3])
    normal[4] = -np.abs(normal[4]) * 0.1
    normal[5, 64:160] = 0  # whole groups of zeros
    normal[6] = 0.75  # one value
    normal[7, 32:] *= 1e-6  # groups whose scale rounds to zero beside the first
    normal[8] = np.round(normal[8] * 4) / 8  # ties
    normal[9] = 0
    uniform = rng.uniform(-1, 1, (6, 256)) * rng.uniform(0.001, 3, (6, 1))
    return np.concatenate([normal, uniform]).astype(np.float32)


def by_ggml(values: np.ndarray, kind: Type) -> np.ndarray:
    library = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    size = gguf.GGML_QUANT_SIZES[kind][1]
    out = np.zeros(values.size // 256 * size, dtype=np.uint8)
    function = getattr(library, BY_GGML[kind])
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    function(values.ctypes.data, out.ctypes.data, values.size)
    return out


def write_blocks() -> None:
    values = rows()
    tensors = {"values": torch.from_numpy(values)}
    for kind in BY_PACKAGE:
        blocks = gguf.quants.quantize(values, kind)
        tensors[f"{kind.name.lower()}.blocks"] = torch.from_numpy(np.frombuffer(blocks.tobytes(), np.uint8).copy())
    for kind in BY_GGML:
        tensors[f"{kind.name.lower()}.blocks"] = torch.from_numpy(by_ggml(values, kind))
    save_file(tensors, HERE / "gguf_quantized.safetensors")


# name: architecture, layers, width, heads, heads of keys, experts, a head of its own
MODELS = {"llama": ("llama", 17, 256, 4, 2, 0, True), "tied": ("qwen3", 5, 256, 4, 2, 0, False), "narrow": ("llama", 9, 288, 4, 2, 0, True),
          "narrower": ("llama", 3, 64, 4, 2, 0, False), "few_experts": ("qwen3moe", 4, 256, 4, 2, 8, True),
          "experts": ("qwen3moe", 9, 256, 4, 2, 4, True), "layers_80": ("llama", 80, 256, 8, 1, 0, False)}


def write_model(path, arch, layers, width, heads, kv_heads, experts, head) -> None:
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(64); writer.add_embedding_length(width); writer.add_block_count(layers); writer.add_feed_forward_length(width)
    writer.add_head_count(heads); writer.add_head_count_kv(kv_heads); writer.add_layer_norm_rms_eps(1e-5)
    writer.add_key_length(width // heads); writer.add_value_length(width // heads)
    if experts: writer.add_expert_count(experts); writer.add_expert_used_count(2); writer.add_expert_feed_forward_length(width)
    tokens = ["<s>"] + [chr(0x41 + i) for i in range(31)]
    writer.add_tokenizer_model("gpt2"); writer.add_tokenizer_pre("gpt-2"); writer.add_token_list(tokens); writer.add_token_types([1] * 32)
    writer.add_token_merges(["A B"]); writer.add_bos_token_id(0); writer.add_eos_token_id(0)
    rng = np.random.default_rng(1)
    def add(name, *shape): writer.add_tensor(name, rng.standard_normal(shape).astype(np.float32))
    keys = width // heads * kv_heads
    add("token_embd.weight", 32, width); add("output_norm.weight", width)
    if head: add("output.weight", 32, width)
    for i in range(layers):
        for name, *shape in (("attn_norm", width), ("attn_q", width, width), ("attn_k", keys, width), ("attn_v", keys, width),
                             ("attn_output", width, width), ("ffn_norm", width)):
            add(f"blk.{i}.{name}.weight", *shape)
        if arch != "llama": add(f"blk.{i}.attn_q_norm.weight", width // heads); add(f"blk.{i}.attn_k_norm.weight", width // heads)
        if experts: add(f"blk.{i}.ffn_gate_inp.weight", experts, width)
        for name in ("gate", "up", "down"):
            add(f"blk.{i}.ffn_{name}{'_exps' if experts else ''}.weight", *([experts] if experts else []), width, width)
    writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()


def types_in(path) -> dict:
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        _, _, rest = tensor.name.partition(".")
        stem = rest.partition(".")[2] if tensor.name.startswith("blk.") else tensor.name
        layer = int(rest.partition(".")[0]) if tensor.name.startswith("blk.") else 0
        found.setdefault(stem, {})[layer] = (tensor.tensor_type.name, [int(n) for n in reversed(tensor.shape)])
    return {stem: {"shape": by_layer[0][1], "types": " ".join(by_layer[i][0] for i in range(len(by_layer)))}
            for stem, by_layer in sorted(found.items()) if not stem.endswith("norm.weight")}


def write_mixes() -> None:
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in MODELS.items():
            source = pathlib.Path(folder) / f"{name}.gguf"
            write_model(source, *model)
            _, layers, _, heads, kv_heads, experts, head = model
            for mix in ["Q4_K_M"] if layers == 80 else MIXES:
                target = pathlib.Path(folder) / "out.gguf"
                params = llama_cpp.llama_model_quantize_default_params()
                params.ftype, params.nthread = MIXES[mix], 1
                status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
                assert status == 0, (name, mix)
                cases.append(dict(name=name, mix=mix, layers=layers, heads=heads, kv_heads=kv_heads, experts=experts, head=head,
                                  tensors=types_in(target)))
    (HERE / "gguf_mix.json").write_text("[" + ",\n ".join(json.dumps(case) for case in cases) + "]\n")


if __name__ == "__main__":
    write_blocks()
    write_mixes()
