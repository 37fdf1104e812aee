// Layer normalization of the last dimension, with weight and bias (Ba et al., arXiv 1607.06450).
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// y = (x - mean) / sqrt(variance + eps) * weight + bias. Immutable.
class LayerNorm {
 public:
  LayerNorm() = default;
  LayerNorm(at::Tensor weight, at::Tensor bias, double eps);  // both [n]

  at::Tensor forward(const at::Tensor& x) const;  // [..., n] -> the same

 private:
  at::Tensor weight_, bias_;
  double eps_ = 0;
};

}  // namespace quaver::nn
