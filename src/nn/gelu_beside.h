// What a layer over an attention's output and a feed-forward part's inner values takes.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// x, then GELU (its tanh form) of inner.
at::Tensor gelu_beside(const at::Tensor& x,       // [batch, tokens, n]
                       const at::Tensor& inner);  // [batch, tokens, m] -> [batch, tokens, n + m]

}  // namespace quaver::nn
