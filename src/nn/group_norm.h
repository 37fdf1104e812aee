// Normalization of pictures over groups of channels.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "nn/weight_source.h"

namespace quaver::nn {

// y = (x - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the pixels of each group of
// consecutive channels of each picture (Wu and He, 2018).
class GroupNorm {
 public:
  // `prefix`.weight and `prefix`.bias, each [channels]. Precondition: groups divides channels.
  GroupNorm(WeightSource& source, std::string_view prefix, int64_t channels, int64_t groups, double eps);

  at::Tensor forward(const at::Tensor& x) const;       // [batch, channels, h, w] -> the same
  at::Tensor forward_silu(const at::Tensor& x) const;  // SiLU of it

 private:
  at::Tensor weight_, bias_;
  int64_t groups_;
  double eps_;
};

}  // namespace quaver::nn
