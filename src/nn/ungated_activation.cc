#include "nn/ungated_activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>

namespace quaver::nn {

at::Tensor activated(UngatedActivation function, const at::Tensor& x) {
  if (function == UngatedActivation::kRelu) return at::relu(x);
  if (function == UngatedActivation::kQuickGelu) return x * at::sigmoid(x * 1.702);
  return at::gelu(x, function == UngatedActivation::kGeluTanh ? "tanh" : "none");
}

}  // namespace quaver::nn
