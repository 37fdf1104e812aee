#include "nn/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>

#include <utility>

#include "nn/kernel_path.h"

namespace quaver::nn {

RmsNorm::RmsNorm(at::Tensor weight, double eps, NormFlavour flavour)
    : weight_(std::move(weight)), eps_(eps), flavour_(flavour) {
  scale_ = weight_.detach().to(at::kFloat).contiguous();
  if (flavour_ == NormFlavour::kOnePlusWeight) scale_ = scale_ + 1.0;
}

at::Tensor RmsNorm::aten(const at::Tensor& x) const {
  at::Tensor wide = x.to(at::kFloat);
  at::Tensor normed = wide * at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps_);
  if (flavour_ == NormFlavour::kOnePlusWeight)
    return (normed * (weight_.to(at::kFloat) + 1.0)).to(x.scalar_type());
  return weight_ * normed.to(x.scalar_type());
}

at::Tensor RmsNorm::forward(const at::Tensor& x) const { return aten(x); }

}  // namespace quaver::nn
