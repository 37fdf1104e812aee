#include "nn/device_quant_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "nn/device_kernel.h"
#include "nn/kernel_path.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

namespace {

at::Tensor on_device(DType dtype, std::vector<int64_t> shape, const Buffer& data, at::Device device) {
  return tensor_over({dtype, std::move(shape), data}, "quantized weight").to(device);
}

DType scale_dtype(ScaleCodec codec) {
  if (codec == ScaleCodec::kF16) return DType::kF16;
  return codec == ScaleCodec::kBF16 ? DType::kBF16 : DType::kF32;
}

// Which group each input channel uses.
at::Tensor channel_groups(const QuantWeight& weight) {
  at::Tensor channel =
      weight.permutation.empty()
          ? at::arange(weight.shape.cols, at::kLong)
          : tensor_over({DType::kI32, {weight.shape.cols}, Buffer::copy_of(weight.permutation)},
                        "permutation")
                .to(at::kLong);
  return channel.floor_divide(weight.group.cols);
}

}  // namespace

bool DeviceQuantWeight::can_expand(const QuantWeight& weight) {
  ScaleCodec codec = weight.scale.codec;
  bool float_scales = codec == ScaleCodec::kF32 || codec == ScaleCodec::kF16 || codec == ScaleCodec::kBF16;
  return element_info(weight.element).integer && weight.group.rows == 1 && float_scales &&
         !weight.scale.super && !std::holds_alternative<RealMins>(weight.offset) &&
         weight.input_multiplier.empty();
}

DeviceQuantWeight::DeviceQuantWeight(const QuantWeight& weight, at::Device device)
    : rows_(weight.shape.rows),
      cols_(weight.shape.cols),
      group_(weight.group.cols),
      bits_(element_info(weight.element).bits) {
  std::vector<int64_t> groups = {rows_, weight.num_group_cols()};
  packed_ = on_device(DType::kU8, {rows_, weight.row_bytes()}, weight.codes, device);
  scales_ = on_device(scale_dtype(weight.scale.codec), groups, weight.scale.data, device);
  if (const auto* zeros = std::get_if<IntegerZeros>(&weight.offset))
    zeros_ = on_device(DType::kU8, groups, zeros->data, device);
  permuted_ = !weight.permutation.empty();
  if (permuted_ || cols_ % group_ != 0) groups_ = channel_groups(weight).to(device);
}

// Column c's code lies in the stream at bit c * bits, over at most two bytes.
at::Tensor DeviceQuantWeight::codes() const {
  if (bits_ == 8) return packed_.to(at::kFloat);
  at::Tensor bit = at::arange(cols_, at::TensorOptions().dtype(at::kLong).device(packed_.device())) * bits_;
  at::Tensor byte = bit.floor_divide(8), shift = bit.remainder(8).to(at::kInt);
  at::Tensor value = packed_.index_select(1, byte).to(at::kInt);
  if (8 % bits_ != 0) {
    at::Tensor next = (byte + 1).clamp_max(packed_.size(1) - 1);
    value = value.bitwise_or(packed_.index_select(1, next).to(at::kInt).bitwise_left_shift(8));
  }
  return value.bitwise_right_shift(shift).bitwise_and((1 << bits_) - 1).to(at::kFloat);
}

bool DeviceQuantWeight::kernels_take(at::ScalarType dtype) const {
  bool known = dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
  return known && packed_.is_cuda() && kernels::device_kernels_built() && kernels_allowed();
}

kernels::DeviceIntegerWeight DeviceQuantWeight::view() const {
  return {.codes = packed_.const_data_ptr<uint8_t>(),
          .scales = scales_.const_data_ptr(),
          .scale_type = device_float(scales_.scalar_type()),
          .zeros = zeros_.defined() ? zeros_.const_data_ptr<uint8_t>() : nullptr,
          .channel = permuted_ ? groups_.const_data_ptr<int64_t>() : nullptr,
          .bits = bits_,
          .rows = rows_,
          .cols = cols_,
          .row_bytes = packed_.size(1),
          .group = group_,
          .groups = scales_.size(1)};
}

std::optional<at::Tensor> DeviceQuantWeight::multiply(const at::Tensor& x,
                                                      const std::optional<at::Tensor>& bias) const {
  int64_t m = x.numel() / cols_;
  if (!kernels_take(x.scalar_type()) || !kernels::multiplies_directly(view(), m)) return std::nullopt;
  at::Tensor rows = x.contiguous();
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = rows_;
  at::Tensor y = at::empty(shape, x.options());
  kernels::multiply_integer(view(),
                            {.type = device_float(x.scalar_type()),
                             .x = rows.const_data_ptr(),
                             .y = y.mutable_data_ptr(),
                             .bias = bias ? bias->const_data_ptr() : nullptr,
                             .m = m},
                            current_stream(x.device()));
  return y;
}

at::Tensor DeviceQuantWeight::dense(at::ScalarType dtype) const {
  if (kernels_take(dtype)) {
    at::Tensor out = at::empty({rows_, cols_}, packed_.options().dtype(dtype));
    kernels::expand_integer(view(), device_float(dtype), out.mutable_data_ptr(),
                            current_stream(out.device()));
    return out;
  }
  at::Tensor values = codes();
  at::Tensor scales = scales_.to(at::kFloat);
  at::Tensor zeros = zeros_.defined() ? zeros_.to(at::kFloat) : at::Tensor();
  double middle = 1 << (bits_ - 1);
  if (groups_.defined()) {
    at::Tensor centred =
        values - (zeros.defined() ? zeros.index_select(1, groups_) : at::Tensor(scales.new_full({}, middle)));
    return (centred * scales.index_select(1, groups_)).to(dtype);
  }
  values = values.view({rows_, cols_ / group_, group_});
  values = zeros.defined() ? values - zeros.unsqueeze(2) : values - middle;
  return (values * scales.unsqueeze(2)).view({rows_, cols_}).to(dtype);
}

size_t DeviceQuantWeight::size_bytes() const {
  size_t total = packed_.nbytes() + scales_.nbytes();
  if (zeros_.defined()) total += zeros_.nbytes();
  return groups_.defined() ? total + groups_.nbytes() : total;
}

}  // namespace quaver::nn
