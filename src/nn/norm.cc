#include "nn/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>

#include <utility>

#include "base/thread_pool.h"
#include "kernels/norm/norm.h"
#include "nn/kernel_path.h"
#include "nn/precision.h"

namespace quaver::nn {

RmsNorm::RmsNorm(at::Tensor weight, double eps, NormFlavour flavour)
    : weight_(std::move(weight)), eps_(eps), flavour_(flavour) {
  scale_ = weight_.detach().to(at::kFloat).contiguous();
  if (flavour_ == NormFlavour::kOnePlusWeight) scale_ = scale_ + 1.0;
}

at::Tensor RmsNorm::aten(const at::Tensor& x) const {
  at::Tensor wide = x.to(at_least_float(x));
  at::Tensor normed = wide * at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps_);
  if (flavour_ == NormFlavour::kOnePlusWeight)
    return (normed * (weight_.to(wide.scalar_type()) + 1.0)).to(x.scalar_type());
  return weight_ * normed.to(x.scalar_type());
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
  return kernels_apply(x, {&weight_}) ? kernel(x) : aten(x);
}

}  // namespace quaver::nn
