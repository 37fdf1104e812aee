"""Cuts checkpoints that the quantizers themselves wrote down to what the tests read.

usage: python trim_checkpoints.py SOURCE_DIR TARGET_DIR [FOLDER ...]

SOURCE_DIR holds one folder per checkpoint: config.json and model.safetensors as auto-round 0.16.1, gptqmodel 7.7.0, llmcompressor 0.14.0.1
(compressed-tensors 0.19.0), nvidia-modelopt 0.47.0, amd-quark 0.13 or transformers 5.24.0 (alone, or with bitsandbytes 0.50.2
or torchao 0.18.0) saved them from a random model of one or two layers, and expected.safetensors with weights as those tools dequantize them ("<layer>.weight", float32
[out, in], scales widened to float32 first; rows 0..63 of large ones) and logits of a float32 model that uses them.

Kept of the quantized tensors: everything, byte for byte. Of `WHOLE` checkpoints the plain tensors and the logits too; of `LOGITS` the tool's
own logits ("logits": inputs quantized as the folder asks) of the last tokens. Embedding and head are the same in all that share a base
model, so one whole folder lends them to the others. Expected weights are
cut to their first rows; the FNV-1a 64 hash of all rows stands in weights.json, with -0 counted as 0 (some tools dequantize by a product
with the identity, which loses the sign of zero).
"""
import json, os, shutil, sys
from safetensors import safe_open
from safetensors.torch import save_file

WHOLE = ["autoround-w4g128-sym", "autoround-w4g32-sym", "autoround-mixed-bits", "autoround-moe-w4g32-sym", "gptqmodel-w4g32-actorder",
         "autoround-awq-w4g128-asym", "transformers-fp8-block", "autoround-fp8-static", "autoround-mxfp4", "autoround-nvfp4",
         "ct-fp8-static-kv-fp8", "ct-mixed-precision", "ct-moe-w4a16-g32", "ct-w8a8-int8-dynamic"]
PARTS = ["autoround-w2g64-sym", "autoround-w2g64-asym", "autoround-w3g128-sym", "autoround-w5g128-asym", "autoround-w4g128-asym-awq",
         "autoround-gptq-w4g128-sym", "autoround-fp8-block", "autoround-block-fp8-native", "autoround-fpw8a16", "autoround-mxfp8",
         "autoround-mxint4", "autoround-nvfp4-e5m3", "autoround-ct-fp8-static", "autoround-ct-int8-w8a8", "autoround-ct-mxfp8",
         "ct-fp8-block", "ct-fp8-dynamic", "ct-mxfp4", "ct-nvfp4", "ct-w3a16-g64", "ct-w4a16-g128-asym", "ct-w4a16-g128-sym",
         "gptqmodel-awq-gemm-w4g128", "gptqmodel-dynamic", "gptqmodel-w4g64-asym-v2"]
PARTS += ["modelopt-fp8-kv-fp8", "modelopt-fp8-pb-wo", "modelopt-fp8-pc-pt", "modelopt-int4-awq", "modelopt-int8-smoothquant",
          "modelopt-mixed", "modelopt-mxfp4", "modelopt-mxfp8", "modelopt-nvfp4-kv-fp8", "modelopt-w4a8-awq"]
PARTS += ["quark-fp8-kv-fp8", "quark-int4-g64-reorder", "quark-int8", "quark-mixed", "quark-mxfp4", "quark-mxfp4-fp8",
          "quark-mxfp6-e3m2", "quark-nvfp4"]
PARTS += ["bitsandbytes-int8", "bitsandbytes-nf4-double"]
PARTS += ["torchao-float8wo", "torchao-fqn-to-config", "torchao-int8da-int8w", "torchao-int8wo", "torchao-intx-int4-g32"]
# Those that quantize inputs, as far as their tool does so on a CPU.
LOGITS = ["autoround-ct-int8-w8a8", "autoround-ct-mxfp8", "autoround-mxfp8", "autoround-mxint4", "autoround-nvfp4-e5m3", "bitsandbytes-int8",
          "ct-fp8-block", "ct-fp8-dynamic", "ct-mxfp4", "ct-nvfp4", "modelopt-fp8-kv-fp8", "modelopt-fp8-pc-pt", "modelopt-int8-smoothquant",
          "modelopt-w4a8-awq", "quark-fp8-kv-fp8", "quark-int8", "quark-mixed", "quark-mxfp4", "quark-mxfp4-fp8", "quark-mxfp6-e3m2",
          "quark-nvfp4", "torchao-int8da-int8w"]
ROWS = 4


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def tensors(path):
    with safe_open(path, "pt") as f:
        return {name: f.get_tensor(name) for name in f.keys()}, f.metadata()


def trim(source, target, whole, logits):
    os.makedirs(target, exist_ok=True)
    for name in ("config.json", "quantization_config.json", "quantize_config.json", "hf_quant_config.json"):
        if os.path.exists(os.path.join(source, name)):
            shutil.copy(os.path.join(source, name), target)
    if whole:
        shutil.copy(os.path.join(source, "model.safetensors"), target)
    else:
        model, metadata = tensors(os.path.join(source, "model.safetensors"))
        kept = {k: v for k, v in model.items() if "embed_tokens" not in k and k != "lm_head.weight"}
        save_file(kept, os.path.join(target, "model.safetensors"), metadata=metadata)
    expected, _ = tensors(os.path.join(source, "expected.safetensors"))
    hashes, kept = {}, {}
    for name, value in expected.items():
        if name.endswith(".weight"):
            hashes[name] = {"rows": value.shape[0], "fnv1a": fnv1a((value + 0.0).contiguous().numpy().tobytes())}
            kept[name] = value[:ROWS].contiguous()
        elif whole or (logits and name == "input_ids"):
            kept[name] = value
        elif logits and name == "logits":
            kept[name] = value[-ROWS:].contiguous()
    save_file(kept, os.path.join(target, "expected.safetensors"))
    with open(os.path.join(target, "weights.json"), "w") as f:
        json.dump(hashes, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    for folder in sys.argv[3:] or WHOLE + PARTS:
        trim(os.path.join(sys.argv[1], folder), os.path.join(sys.argv[2], folder), folder in WHOLE, folder in LOGITS)
