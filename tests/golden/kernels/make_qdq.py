"""Fake quantization and its gradients by AutoRound's own functions.

requirements: torch==2.13.0 auto-round==0.16.1
usage: python make_qdq.py qdq.safetensors

`w` and `dw` [12, 160] are the weight and the gradient of the loss with respect to the result; `v` as w, `alpha<g>` and `beta<g>`
[12, groups] are the parameters. Every case w<bits>g<group>sym|asym gives .w_hat, .scale, .dv, .dalpha and .dbeta.
"""
import sys
import torch
from auto_round.data_type.int import quant_tensor_asym, quant_tensor_sym
from safetensors.torch import save_file

ROWS, COLUMNS = 12, 160


def make_weight(g):
    w = torch.randn(ROWS, COLUMNS, generator=g) * 0.05
    w[1, :32] = 0                     # a group of zeros
    w[2] = w[2].abs()                 # no negative value
    w[3] = -w[3].abs()                # no positive value
    w[4, 5], w[4, 7] = 0.5, -0.5      # both extremes equally far
    w[5] *= 1e-5                      # scales on the floor
    w[6, 100] = 40.0                  # one outlier
    return w.bfloat16().float()


def run(w, dw, v, alpha, beta, bits, group, sym):
    v, alpha, beta = (t.clone().requires_grad_() for t in (v, alpha, beta))
    groups = alpha.shape[1]
    padded = torch.nn.functional.pad(w, (0, groups * group - COLUMNS))
    v_padded = torch.nn.functional.pad(v, (0, groups * group - COLUMNS)).reshape(-1, group)
    function = quant_tensor_sym if sym else quant_tensor_asym
    w_hat, scale, _ = function(padded, bits=bits, group_size=group, v=v_padded, min_scale=alpha.reshape(-1),
                               max_scale=beta.reshape(-1), scale_dtype=torch.float16)
    w_hat = w_hat[:, :COLUMNS]
    (w_hat * dw).sum().backward()
    return {"w_hat": w_hat.detach().contiguous(), "scale": scale.detach().float().reshape(ROWS, groups).contiguous(),
            "dv": v.grad, "dalpha": alpha.grad, "dbeta": beta.grad}


def main(path):
    g = torch.Generator().manual_seed(3)
    w, dw, v = make_weight(g), torch.randn(ROWS, COLUMNS, generator=g), torch.rand(ROWS, COLUMNS, generator=g) - 0.5
    out = {"w": w, "dw": dw, "v": v}
    for group in (32, 64):
        groups = (COLUMNS + group - 1) // group
        alpha, beta = (0.6 + 0.4 * torch.rand(ROWS, groups, generator=g) for _ in range(2))
        alpha[4] = beta[4] = 1.0      # where the extremes tie
        out[f"alpha{group}"], out[f"beta{group}"] = alpha, beta
        for bits in (2, 4, 8):
            for sym in (True, False):
                name = f"w{bits}g{group}{'sym' if sym else 'asym'}"
                out |= {f"{name}.{key}": t for key, t in run(w, dw, v, alpha, beta, bits, group, sym).items()}
    save_file({k: t.contiguous() for k, t in out.items()}, path)


main(sys.argv[1])
