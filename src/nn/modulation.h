// Adaptive normalization of diffusion transformers: a norm without weights, shifted and scaled by a
// condition.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// LayerNorm without weights, then * (1 + scale) + shift.
at::Tensor modulated_norm(const at::Tensor& x,      // [batch, tokens, n]
                          const at::Tensor& shift,  // [batch, n]
                          const at::Tensor& scale,  // [batch, n]
                          double eps);              // -> [batch, tokens, n]

// x + gate * y.
at::Tensor gated_sum(const at::Tensor& x,     // [batch, tokens, n]
                     const at::Tensor& gate,  // [batch, n]
                     const at::Tensor& y);    // [batch, tokens, n] -> the same

}  // namespace quaver::nn
