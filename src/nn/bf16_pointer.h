// The bits of bfloat16 tensors, as kernels take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace quaver::nn {

inline const uint16_t* bf16_bits(const at::Tensor& x) {
  return reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>());
}

inline uint16_t* mutable_bf16_bits(const at::Tensor& x) {
  return reinterpret_cast<uint16_t*>(x.mutable_data_ptr<at::BFloat16>());
}

}  // namespace quaver::nn
