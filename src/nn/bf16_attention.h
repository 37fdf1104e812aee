// Causal attention over bf16 sequences of one length on the CPU, with gradients: what tuning runs.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/attention_context.h"

namespace quaver::nn {

// q [batch, length, heads, head_dim], k and v [batch, length, kv_heads, head_dim], all bf16; -> as q. Neither
// softcap nor sinks, which would see the keys move. Heads that share a key head are one matrix, so nothing is
// repeated; scores exist for a few queries at a time, in the gradient too, which computes them again. Scores
// are rounded to bf16 once: keys are centred first, which softmax does not see and which keeps scores small
// (SageAttention, Zhang et al., 2024).
at::Tensor bf16_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionParams& params);

}  // namespace quaver::nn
