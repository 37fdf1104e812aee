// Attention of every token to every token by whatever is fastest where the tensors live.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// softmax(q k^T / sqrt(head_dim)) v, no mask. Any strides.
at::Tensor full_attention(const at::Tensor& q,   // [batch, heads, tokens, head_dim]
                          const at::Tensor& k,   // the same
                          const at::Tensor& v);  // the same -> the same, laid out as q

}  // namespace quaver::nn
