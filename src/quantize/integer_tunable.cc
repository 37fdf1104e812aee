#include "quantize/integer_tunable.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "numerics/half.h"
#include "quantize/fake_quantize.h"
#include "quantize/range_search.h"

namespace quaver::quantize {
namespace {

void sign_step(at::Tensor& parameter, const at::Tensor& gradient, float rate) {
  parameter.sub_(gradient.sign(), rate);
}

Buffer f16_scales(const at::Tensor& scale) {
  at::Tensor on_host = scale.to(at::kCPU).contiguous();
  std::vector<uint16_t> halves(static_cast<size_t>(on_host.numel()));
  const float* values = on_host.const_data_ptr<float>();
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = float_to_f16(values[i]);
  return Buffer::copy_of(halves);
}

Buffer byte_zeros(const at::Tensor& zero) {
  at::Tensor on_host = zero.to(at::kCPU).to(at::kByte).contiguous();
  return Buffer::copy_of(std::span(on_host.const_data_ptr<uint8_t>(), static_cast<size_t>(on_host.numel())));
}

}  // namespace

IntegerTunable::IntegerTunable(at::Tensor weight, const Scheme& scheme)
    : weight_(std::move(weight)), scheme_(scheme), group_(tile_of(weight_, scheme).cols) {
  int64_t groups = (weight_.size(1) + group_ - 1) / group_;
  at::TensorOptions options = at::TensorOptions(at::kFloat).device(weight_.device());
  value_ = at::zeros({weight_.size(0), weight_.size(1)}, options);
  alpha_ = at::ones({weight_.size(0), groups}, options);
  beta_ = at::ones({weight_.size(0), groups}, options);
  fake_ = at::empty_like(weight_).requires_grad_(true);
}

const at::Tensor& IntegerTunable::fake_quantize() {
  quantize::fake_quantize(tensors(), scheme_, fake_);
  return fake_;
}

void IntegerTunable::search_ranges(const at::Tensor& importance) {
  at::Tensor ratio = quantize::search_ranges(
      weight_, {1, group_}, importance, [this](int64_t first, int64_t count, float r) {
        at::Tensor range = at::full({count, alpha_.size(1)}, r, alpha_.options());
        at::Tensor fake = fake_.detach().narrow(0, first, count);
        quantize::fake_quantize({.weight = weight_.narrow(0, first, count),
                                 .value = value_.narrow(0, first, count),
                                 .alpha = range,
                                 .beta = range,
                                 .group = group_},
                                scheme_, fake);
        return fake;
      });
  alpha_.copy_(ratio);
  beta_.copy_(ratio);
}

void IntegerTunable::step(const at::Tensor& fake_gradient, float lr, float minmax_lr) {
  at::Tensor gradient = fake_gradient.contiguous();
  if (weight_.is_cpu()) {
    kernels::qdq_backward(kernel_args(tensors(), scheme_), {.dw_hat = gradient.const_data_ptr(),
                                                            .dtype = kernel_dtype(gradient),
                                                            .v_rate = lr,
                                                            .range_rate = minmax_lr});
  } else {
    at::NoGradGuard no_grad;
    QdqGradients gradients = qdq_backward_aten(tensors(), scheme_, gradient);
    alpha_.clamp_(0, kRangeLimit);
    beta_.clamp_(0, kRangeLimit);
    sign_step(value_, gradients.value, lr);
    sign_step(alpha_, gradients.alpha, minmax_lr);
    sign_step(beta_, gradients.beta, minmax_lr);
  }
}

QdqResult IntegerTunable::codes() const {
  if (!weight_.is_cpu()) return qdq_forward_aten(tensors(), scheme_);
  QdqResult result{.codes = at::empty({weight_.size(0), weight_.size(1)}, at::kByte),
                   .scale = at::empty_like(alpha_),
                   .zero = at::empty_like(alpha_)};
  kernels::qdq_forward(kernel_args(tensors(), scheme_), {.scale = result.scale.data_ptr<float>(),
                                                         .zero = result.zero.data_ptr<float>(),
                                                         .codes = result.codes.data_ptr<uint8_t>()});
  return result;
}

QuantWeight IntegerTunable::quantized() const {
  QdqResult result = codes();
  QuantWeight quant;
  quant.element = integer_element(scheme_.bits);
  quant.shape = {weight_.size(0), weight_.size(1)};
  quant.group = {1, group_};
  quant.codes = packed_codes(result.codes, scheme_.bits);
  quant.scale = {.codec = ScaleCodec::kF16, .data = f16_scales(result.scale), .super = nullptr};
  if (!scheme_.sym) quant.offset = IntegerZeros{byte_zeros(result.zero)};
  return quant;
}

}  // namespace quaver::quantize
