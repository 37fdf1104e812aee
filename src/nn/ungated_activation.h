// The activations of feed-forward layers without a gate.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

enum class UngatedActivation {
  kRelu,
  kGelu,       // x * Phi(x) (Hendrycks and Gimpel, arXiv 1606.08415)
  kGeluTanh,   // its approximation by tanh
  kQuickGelu,  // its approximation x * sigmoid(1.702 x)
};

at::Tensor activated(UngatedActivation function, const at::Tensor& x);  // [...] -> the same

}  // namespace quaver::nn
