#include "nn/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/thread_pool.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_bf16.h"
#include "nn/bf16_pointer.h"
#include "nn/kernel_path.h"

namespace quaver::nn {

namespace {

at::Tensor clamped_silu(const Gating& gating, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor g = gate.clamp_max(gating.limit), u = up.clamp(-gating.limit, gating.limit);
  return (u + 1) * (g * at::sigmoid(g * gating.alpha));
}

at::Tensor gated_aten(const Gating& gating, const at::Tensor& gate, const at::Tensor& up) {
  if (gating.function == Activation::kClampedSilu) return clamped_silu(gating, gate, up);
  if (gating.function == Activation::kSilu) return at::silu(gate) * up;
  return at::gelu(gate, gating.function == Activation::kGeluTanh ? "tanh" : "none") * up;
}

auto* gate_kernel_of(Activation function) {
  if (function == Activation::kClampedSilu) return kernels::clamped_silu_mul;
  return function == Activation::kSilu ? kernels::silu_mul : kernels::gelu_tanh_mul;
}

at::Tensor gate_kernel(const Gating& gating, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor g = gate.contiguous(), u = up.contiguous(), y = at::empty_like(g);
  int64_t width = g.size(-1);
  gate_kernel_of(gating.function)({.gate = g.const_data_ptr<float>(),
                                   .gate_stride = width,
                                   .up = u.const_data_ptr<float>(),
                                   .up_stride = width,
                                   .y = y.mutable_data_ptr<float>(),
                                   .y_stride = width,
                                   .rows = g.numel() / width,
                                   .width = width,
                                   .pool = &global_thread_pool(),
                                   .alpha = gating.alpha,
                                   .limit = gating.limit},
                                  cpu_features());
  return y;
}

struct Bf16Gated : torch::autograd::Function<Bf16Gated> {
  static kernels::GatedBf16Args args(const at::Tensor& gate, const at::Tensor& up, bool silu) {
    return {.function = silu ? kernels::GateFunction::kSilu : kernels::GateFunction::kGeluTanh,
            .gate = bf16_bits(gate),
            .up = bf16_bits(up),
            .count = gate.numel(),
            .pool = &global_thread_pool()};
  }

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up, bool silu) {
    at::Tensor g = gate.contiguous(), u = up.contiguous(), y = at::empty_like(g);
    kernels::gated_bf16(args(g, u, silu), mutable_bf16_bits(y));
    context->save_for_backward({g, u});
    context->saved_data["silu"] = silu;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    torch::autograd::variable_list saved = context->get_saved_variables();
    at::Tensor dy = gradients[0].contiguous(), dgate = at::empty_like(dy), dup = at::empty_like(dy);
    kernels::gated_bf16_gradient(args(saved[0], saved[1], context->saved_data["silu"].toBool()),
                                 bf16_bits(dy), mutable_bf16_bits(dgate), mutable_bf16_bits(dup));
    return {dgate, dup, {}};
  }
};

}  // namespace

at::Tensor gated(const Gating& gating, const at::Tensor& gate, const at::Tensor& up) {
  // The erf form has no kernel: no decoder uses it in practice.
  if (gating.function == Activation::kGelu) return gated_aten(gating, gate, up);
  if (kernels_apply(gate, {&up})) return gate_kernel(gating, gate, up);
  if (gating.function != Activation::kClampedSilu && bf16_kernels_apply(gate))
    return Bf16Gated::apply(gate, up, gating.function == Activation::kSilu);
  return gated_aten(gating, gate, up);
}

}  // namespace quaver::nn
