#include "nn/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "base/thread_pool.h"
#include "kernels/norm/norm.h"
#include "kernels/norm/norm_bf16.h"
#include "nn/bf16_pointer.h"
#include "nn/kernel_path.h"
#include "nn/precision.h"

namespace quaver::nn {

namespace {

struct Bf16RmsNorm : torch::autograd::Function<Bf16RmsNorm> {
  static kernels::RmsNormBf16Args args(const at::Tensor& x, const at::Tensor& scale, double eps,
                                       bool round_first) {
    return {.x = bf16_bits(x),
            .weight = scale.const_data_ptr<float>(),
            .rows = x.numel() / x.size(-1),
            .width = x.size(-1),
            .epsilon = static_cast<float>(eps),
            .round_first = round_first,
            .pool = &global_thread_pool()};
  }

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& scale, double eps, bool round_first) {
    at::Tensor rows = x.contiguous(), y = at::empty_like(rows);
    kernels::rms_norm_bf16(args(rows, scale, eps, round_first), mutable_bf16_bits(y));
    context->save_for_backward({rows, scale});
    context->saved_data["eps"] = eps;
    context->saved_data["round_first"] = round_first;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    torch::autograd::variable_list saved = context->get_saved_variables();
    at::Tensor dy = gradients[0].contiguous(), dx = at::empty_like(dy);
    kernels::rms_norm_bf16_gradient(args(saved[0], saved[1], context->saved_data["eps"].toDouble(),
                                         context->saved_data["round_first"].toBool()),
                                    bf16_bits(dy), mutable_bf16_bits(dx));
    return {dx, {}, {}, {}};
  }
};

}  // namespace

RmsNorm::RmsNorm(at::Tensor weight, double eps, NormFlavour flavour)
    : weight_(std::move(weight)), eps_(eps), flavour_(flavour) {
  scale_ = weight_.detach().to(at::kFloat).contiguous();
  if (flavour_ == NormFlavour::kOnePlusWeight) scale_ = scale_ + 1.0;
}

at::Tensor RmsNorm::aten(const at::Tensor& x) const {
  at::Tensor wide = x.to(at_least_float(x));
  at::Tensor normed = wide * at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps_);
  if (flavour_ == NormFlavour::kCastThenScale) return weight_ * normed.to(x.scalar_type());
  at::Tensor scale = weight_.to(wide.scalar_type());
  if (flavour_ == NormFlavour::kOnePlusWeight) scale = scale + 1.0;
  return (normed * scale).to(x.scalar_type());
}

at::Tensor RmsNorm::kernel(const at::Tensor& x) const {
  at::Tensor rows = x.contiguous(), y = at::empty_like(rows);
  int64_t width = rows.size(-1);
  kernels::rms_norm({.x = rows.const_data_ptr<float>(),
                     .x_stride = width,
                     .y = y.mutable_data_ptr<float>(),
                     .y_stride = width,
                     .weight = scale_.const_data_ptr<float>(),
                     .rows = rows.numel() / width,
                     .width = width,
                     .epsilon = static_cast<float>(eps_),
                     .pool = &global_thread_pool()});
  return y;
}

at::Tensor RmsNorm::forward(const at::Tensor& x) const {
  if (kernels_apply(x, {&weight_})) return kernel(x);
  if (bf16_kernels_apply(x, {&weight_}))
    return Bf16RmsNorm::apply(x, scale_, eps_, flavour_ == NormFlavour::kCastThenScale);
  return aten(x);
}

}  // namespace quaver::nn
