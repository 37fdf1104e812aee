#include "nn/modulation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/layer_norm.h>

namespace quaver::nn {

at::Tensor modulated_norm(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale, double eps) {
  at::Tensor normed = at::layer_norm(x, {x.size(-1)}, {}, {}, eps);
  return at::addcmul(shift.unsqueeze(1), normed, (scale + 1).unsqueeze(1));
}

at::Tensor gated_sum(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y) {
  return at::addcmul(x, gate.unsqueeze(1), y);
}

}  // namespace quaver::nn
