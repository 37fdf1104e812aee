#include "nn/layer_norm.h"

#include <ATen/ops/layer_norm.h>

#include <utility>

namespace quaver::nn {

LayerNorm::LayerNorm(at::Tensor weight, at::Tensor bias, double eps)
    : weight_(std::move(weight)), bias_(std::move(bias)), eps_(eps) {}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
}

}  // namespace quaver::nn
