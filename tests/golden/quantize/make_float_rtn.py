"""Rounds a small matrix to small floats with AutoRound's own data types.

requirements: torch==2.13.0 auto-round==0.16.1 transformers==5.24.0 on x86-64
usage: python make_float_rtn.py float_rtn.safetensors

`weight` [48, 288] bf16 is the input. Every case <name> gives <name>.qdq, quantized and dequantized in bf16 with V at 0 and the ranges
whole, and <name>-moved.qdq, the same under V = `value` [48, 288] and beta = <name>.beta, one per group.
"""
import os, sys
os.environ["TORCHDYNAMO_DISABLE"] = "1"
import torch
from safetensors.torch import save_file
from auto_round.data_type.fp8 import quant_block_fp_sym
from auto_round.data_type.mxfp import quant_mx
from auto_round.data_type.nvfp import nv_fp4

ROWS, COLUMNS = 48, 288


def make_weight(g):
    w = torch.randn(ROWS, COLUMNS, generator=g) * 0.05
    w[1, :128] = 0                                   # groups of zeros
    w[2] = w[2].abs()                                # no negative value
    w[3, 5], w[3, 7] = 0.5, -0.5                     # both extremes equally far
    w[4] = 1e-6 * torch.sign(w[4])                   # far below the others' scale
    w[5, 200] = 24.0                                 # one outlier
    w[6] = 0.25                                      # a power of two
    w[7] = torch.arange(COLUMNS).float().remainder(17).sub(8) * 0.0625
    w[8] = torch.arange(COLUMNS).float().remainder(25).sub(12) * 0.5     # e2m1's halves
    w[9] = w[9] * 1e-3
    return w.bfloat16()


def main(target):
    g = torch.Generator().manual_seed(21)
    weight = make_weight(g)
    out = {"weight": weight, "value": torch.rand(ROWS, COLUMNS, generator=g) - 0.5}
    cases = {
        "mx_fp-4": (32, lambda w, **k: quant_mx(w, bits=4, group_size=32, data_type="mx_fp", **k)),
        "mx_fp-8": (32, lambda w, **k: quant_mx(w, bits=8, group_size=32, data_type="mx_fp", **k)),
        "nv_fp-4": (16, lambda w, **k: nv_fp4(w, bits=4, group_size=16, **k)),
    }
    for name, (group, quantize) in cases.items():
        beta = torch.rand(ROWS * COLUMNS // group, generator=g) * 0.9 + 0.3
        out[name + ".qdq"] = quantize(weight)[0]
        out[name + ".beta"] = beta.view(ROWS, -1)
        out[name + "-moved.qdq"] = quantize(weight, v=out["value"].view(-1, group), max_scale=beta)[0]
    out["fp-8.qdq"] = quant_block_fp_sym(weight.float(), group_size=(16, 96))[0].bfloat16()    # in bf16 the tool divides in bf16
    save_file({k: v.contiguous() for k, v in out.items()}, target)


main(sys.argv[1])
