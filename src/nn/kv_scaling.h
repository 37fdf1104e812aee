// Keys and values in e4m3fn, with a scale for each kv head.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// What a checkpoint says: x is kept as the code of x / scale. Float32 [kv_heads], on the device of the keys
// and values.
struct KvScaling {
  at::Tensor keys, values;
};

// x [tokens, kv_heads, head_dim] -> float8_e4m3fn: nearest, cut at +-448; NaN stays NaN. Undefined scales
// are 1.
at::Tensor kv_codes(const at::Tensor& x, const at::Tensor& scales);

// The other way, in `dtype`; heads are dimension 1 of any number.
at::Tensor kv_values(const at::Tensor& codes, const at::Tensor& scales, at::ScalarType dtype);

// There and back, in the dtype of x; gradients pass unchanged.
at::Tensor round_kv(const at::Tensor& x, const at::Tensor& scales);

}  // namespace quaver::nn
