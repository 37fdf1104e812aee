#include "nn/joint_attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace quaver::nn {

at::Tensor joint_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  at::Tensor mixed =
      at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2));
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace quaver::nn
