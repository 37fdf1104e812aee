// The precision in which sums that lower precisions would spoil are done.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// float32 for every type but float64, which stays: gradients are checked in it.
inline at::ScalarType at_least_float(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace quaver::nn
