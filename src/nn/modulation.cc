#include "nn/modulation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>

#include "kernels/norm/device_modulation.h"
#include "nn/device_kernel.h"

namespace quaver::nn {

namespace {

// Rows of a batch entry lie side by side, and those of the next at the same distance in all of them.
bool conditions_fit(const at::Tensor& x, std::initializer_list<const at::Tensor*> conditions) {
  const at::Tensor& first = **conditions.begin();
  for (const at::Tensor* condition : conditions)
    if (condition->scalar_type() != x.scalar_type() || condition->stride(-1) != 1 ||
        condition->stride(0) != first.stride(0) || condition->stride(0) % 8 != 0 ||
        condition->storage_offset() % 8 != 0)
      return false;
  return kernels::device_modulation_takes(x.size(-1));
}

kernels::DeviceModulation device_rows(const at::Tensor& x, const at::Tensor& condition, at::Tensor& y) {
  return {.type = device_float(x.scalar_type()),
          .batch = x.size(0),
          .tokens = x.size(1),
          .width = x.size(2),
          .x = x.const_data_ptr(),
          .y = y.mutable_data_ptr(),
          .condition_stride = condition.stride(0)};
}

}  // namespace

at::Tensor modulated_norm(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale, double eps) {
  if (device_kernels_apply(x, {&shift, &scale}) && conditions_fit(x, {&shift, &scale})) {
    at::Tensor rows = x.contiguous(), y = at::empty_like(rows);
    kernels::modulated_norm_on_device({.rows = device_rows(rows, shift, y),
                                       .shift = shift.const_data_ptr(),
                                       .scale = scale.const_data_ptr(),
                                       .epsilon = static_cast<float>(eps)},
                                      current_stream(x.device()));
    return y;
  }
  at::Tensor normed = at::layer_norm(x, {x.size(-1)}, {}, {}, eps);
  return at::addcmul(shift.unsqueeze(1), normed, (scale + 1).unsqueeze(1));
}

at::Tensor gated_sum(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y) {
  if (device_kernels_apply(x, {&gate, &y}) && conditions_fit(x, {&gate}) &&
      y.scalar_type() == x.scalar_type()) {
    at::Tensor rows = x.contiguous(), added = y.contiguous(), sum = at::empty_like(rows);
    kernels::gated_sum_on_device({.rows = device_rows(rows, gate, sum),
                                  .gate = gate.const_data_ptr(),
                                  .added = added.const_data_ptr()},
                                 current_stream(x.device()));
    return sum;
  }
  return at::addcmul(x, gate.unsqueeze(1), y);
}

}  // namespace quaver::nn
