"""Rounds small layers with AutoRound's own functions and packs them with its own packers.

requirements: torch==2.13.0 auto-round==0.16.1 transformers==5.24.0 on x86-64
usage: python make_rtn.py rtn.safetensors

`weight` [32, 288] and `imatrix*` [288] are the inputs. Every case <name> gives <name>.qweight, .qzeros and .scales as the tool writes
them; a name reads rtn|opt, w<bits>, g<group> (row for -1), sym|asym, and for opt the importance used: flat, full, some or most
(the last two hold zeros). The packing is the one that the tool picks for its own format.
"""
import os, sys
os.environ["TORCHDYNAMO_DISABLE"] = "1"
import torch
from safetensors.torch import save_file
from auto_round.export.export_to_awq.utils import WQLinear_GEMM
from auto_round.wrapper import WrapperLinear
from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

ROWS, COLUMNS = 32, 288
SUM_LENGTHS = (1, 7, 32, 64, 96, 100, 128, 288, 511, 512, 1000, 2048, 2100)


def make_weight(g):
    w = torch.randn(ROWS, COLUMNS, generator=g) * 0.05
    w[1, :128] = 0                                   # groups of zeros
    w[2] = w[2].abs()                                # no negative value
    w[3] = -w[3].abs()                               # no positive value
    w[4, 5], w[4, 7] = 0.5, -0.5                     # both extremes equally far
    w[5] = 1e-8 * torch.sign(w[5])                   # far below the smallest scale
    w[6, 200] = 240.0                                # one outlier
    w[7] = 0.25                                      # all equal
    w[8] = torch.arange(COLUMNS).float().remainder(17).sub(8) * 0.0625   # codes half way between two
    w[9] = torch.arange(COLUMNS).float().remainder(9).sub(4) * 0.03125 * 1.5
    w[10] = w[10] * 1e-4                             # scales near the floor
    w[11] = w[11] * 300
    return w.bfloat16()


def make_imatrix(g):
    full = torch.rand(COLUMNS, generator=g) ** 4 * 50 + 1e-3
    some, most = full.clone(), full.clone()
    some[::7] = 0
    some[32:64] = 0
    most[torch.rand(COLUMNS, generator=g) < 0.7] = 0
    return {"full": full, "some": some, "most": most}


def quantize(weight, bits, group, sym, opt, imatrix):
    layer = torch.nn.Linear(COLUMNS, ROWS, bias=False, dtype=torch.bfloat16)
    layer.weight.data.copy_(weight)
    layer.bits, layer.group_size, layer.sym, layer.data_type = bits, group, sym, "int"
    layer.act_bits, layer.scale_dtype = 16, torch.float16
    if imatrix is not None:
        layer.imatrix = imatrix.clone()
    wrapped = WrapperLinear(layer, enable_minmax_tuning=False, enable_norm_bias_tuning=False, enable_round_tuning=False,
                            enable_torch_compile=False, disable_opt_rtn=not opt, iters=0)
    return wrapped.unwrapper({})


def pack(layer, bits, group, sym):
    if sym or bits != 4 or COLUMNS % max(group, 1) != 0:
        module = qlinear_torch_zp if sym else qlinear_torch
        packed = module.QuantLinear(bits, group, COLUMNS, ROWS, False)
        packed.device = "cpu"
        packed.pack(layer, layer.scale, layer.zp, None, device="cpu")
    else:
        packed = WQLinear_GEMM.from_linear(layer, bits, group, scales=layer.scale.t().contiguous(),
                                           zeros=layer.zp.t().contiguous().float(), device="cpu")
    return {k: getattr(packed, k).contiguous() for k in ("qweight", "qzeros", "scales")}


@torch.no_grad()
def main(target):
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(20)
    weight, imatrices = make_weight(g), make_imatrix(g)
    out = {"weight": weight, **{"imatrix_" + k: v for k, v in imatrices.items()}}
    cases = [("rtn", bits, group, sym, "") for bits in (2, 3, 4, 8) for group in (32, 64, 128, -1) for sym in (True, False)]
    cases += [("rtn", bits, 128, sym, "") for bits in (5, 6, 7) for sym in (True, False)]
    cases += [("opt", bits, group, True, imatrix) for bits in (2, 3, 4) for group in (32, 64, 128, -1)
              for imatrix in ("flat", "full")]
    cases += [("opt", bits, group, True, imatrix) for bits in (3, 4) for group in (32, 128, -1) for imatrix in ("some", "most")]
    cases += [("opt", 4, 128, False, "full"), ("opt", 8, 128, True, "full")]
    for method, bits, group, sym, imatrix in cases:
        layer = quantize(weight, bits, group, sym, method == "opt", imatrices.get(imatrix))
        name = f"{method}-w{bits}-g{group if group > 0 else 'row'}-{'sym' if sym else 'asym'}" + (f"-{imatrix}" if imatrix else "")
        for part, tensor in pack(layer, bits, group, sym).items():
            out[f"{name}.{part}"] = tensor
    out["sum_values"] = torch.rand(SUM_LENGTHS[-1], generator=g) ** 3
    out["sums"] = torch.stack([out["sum_values"][:n].reshape(1, n).contiguous().sum(-1)[0] for n in SUM_LENGTHS])
    save_file(out, target)


main(sys.argv[1])
