// Attention as two products and a softmax between them, for what fused bodies don't know: caps and sinks.
#pragma once

#include <ATen/core/Tensor.h>

#include "nn/attention_context.h"

namespace quaver::nn {

inline bool needs_explicit_attention(const AttentionParams& params) {
  return params.softcap != 0 || params.sinks.defined();
}

// Differentiable. Where fewer groups than heads are given, the heads of a group are its rows, head by head.
at::Tensor explicit_attention(const at::Tensor& q,        // [batch, groups, heads / groups * n, head_dim]
                              const at::Tensor& k,        // [batch, groups, keys, head_dim]
                              const at::Tensor& v,        // [batch, groups, keys, head_dim]
                              const at::Tensor& visible,  // bool, expands to [batch, groups, rows, keys]
                              const AttentionParams& params);  // -> as q

}  // namespace quaver::nn
