// Attention of every token to every token: what diffusion transformers do over text and picture together.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// softmax(q k^T / sqrt(head_dim)) v, no mask.
at::Tensor joint_attention(const at::Tensor& q,   // [batch, tokens, heads, head_dim]
                           const at::Tensor& k,   // the same
                           const at::Tensor& v);  // the same -> [batch, tokens, heads * head_dim]

}  // namespace quaver::nn
