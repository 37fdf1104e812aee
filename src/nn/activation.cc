#include "nn/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

#include "base/thread_pool.h"
#include "kernels/activation/activation.h"
#include "nn/kernel_path.h"

namespace quaver::nn {

namespace {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  if (activation == Activation::kSilu) return at::silu(x);
  return at::gelu(x, activation == Activation::kGeluTanh ? "tanh" : "none");
}

at::Tensor kernel(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor g = gate.contiguous(), u = up.contiguous(), y = at::empty_like(g);
  int64_t width = g.size(-1);
  kernels::GatedArgs args{.gate = g.const_data_ptr<float>(),
                          .gate_stride = width,
                          .up = u.const_data_ptr<float>(),
                          .up_stride = width,
                          .y = y.mutable_data_ptr<float>(),
                          .y_stride = width,
                          .rows = g.numel() / width,
                          .width = width,
                          .pool = &global_thread_pool()};
  activation == Activation::kSilu ? kernels::silu_mul(args) : kernels::gelu_tanh_mul(args);
  return y;
}

}  // namespace

at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  // The erf form has no kernel: no decoder uses it in practice.
  if (activation != Activation::kGelu && kernels_apply(gate, {&up})) return kernel(activation, gate, up);
  return activate(activation, gate) * up;
}

}  // namespace quaver::nn
