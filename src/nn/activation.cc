#include "nn/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

#include "nn/kernel_path.h"

namespace quaver::nn {

namespace {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  if (activation == Activation::kSilu) return at::silu(x);
  return at::gelu(x, activation == Activation::kGeluTanh ? "tanh" : "none");
}

}  // namespace

at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  return activate(activation, gate) * up;
}

}  // namespace quaver::nn
