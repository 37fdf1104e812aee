// A quantized weight whose packed codes live on a device and are expanded on demand: by a kernel on CUDA, by
// ATen elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "formats/quant_weight.h"
#include "kernels/linear/device_integer.h"

namespace quaver::nn {

// Takes integer codes in groups along the input, with float scales; others are refused by `can_expand`.
// Immutable.
class DeviceQuantWeight {
 public:
  static bool can_expand(const QuantWeight& weight);
  DeviceQuantWeight(const QuantWeight& weight, at::Device device);

  at::Tensor dense(at::ScalarType dtype) const;  // [out, in]: float32 products, rounded to dtype

  // x W^T + bias straight from the codes, where a kernel takes so few rows; x is [..., in], without gradient.
  std::optional<at::Tensor> multiply(const at::Tensor& x, const std::optional<at::Tensor>& bias) const;
  size_t size_bytes() const;
  void visit_tensors(const std::function<void(at::Tensor&)>& visit);  // as Linear::visit_tensors

 private:
  bool kernels_take(at::ScalarType dtype) const;
  kernels::DeviceIntegerWeight view() const;
  at::Tensor codes() const;  // float32 [out, in]

  int64_t rows_, cols_, group_;
  int bits_;
  bool permuted_ = false;
  at::Tensor packed_;  // uint8 [out, row_bytes]
  at::Tensor scales_;  // f32, f16 or bf16 [out, groups]
  at::Tensor zeros_;   // uint8 [out, groups]; undefined when symmetric
  at::Tensor groups_;  // int64 [in]: each channel's group; undefined when groups are runs of equal length
};

}  // namespace quaver::nn
