// Root-mean-square normalization of the last dimension, in the two flavours that models use.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

enum class NormFlavour {
  kCastThenScale,  // normalized in float32, cast to the input's dtype, then times w
  kScaleThenCast,  // normalized and multiplied by w in float32, then cast
  kOnePlusWeight,  // normalized and multiplied by 1 + w in float32, then cast
};

// y = x / sqrt(mean(x^2) + eps) * w. Immutable.
class RmsNorm {
 public:
  RmsNorm() = default;
  RmsNorm(at::Tensor weight, double eps, NormFlavour flavour);

  at::Tensor forward(const at::Tensor& x) const;        // [..., n] -> the same
  const at::Tensor& weight() const { return weight_; }  // as it was given
  const at::Tensor& scale() const { return scale_; }    // what rows are multiplied by, float32
  double eps() const { return eps_; }

 private:
  at::Tensor aten(const at::Tensor& x) const;
  at::Tensor kernel(const at::Tensor& x) const;

  at::Tensor weight_;  // [n]
  at::Tensor scale_;   // float32 [n], what the kernel multiplies by
  double eps_ = 0;
  NormFlavour flavour_ = NormFlavour::kCastThenScale;
};

}  // namespace quaver::nn
