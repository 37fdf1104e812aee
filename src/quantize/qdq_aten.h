// Fake quantization as ATen expressions: the reference for kernels/qdq, and what other devices than the CPU
// run.
#pragma once

#include <ATen/core/Tensor.h>

#include "quantize/scheme.h"

namespace quaver::quantize {

// Largest alpha and beta that tuning may take: a range can grow beyond the weights' own.
constexpr float kRangeLimit = 2.0f;

struct QdqTensors {
  at::Tensor weight;       // [out, in] f32 or bf16
  at::Tensor value;        // V: [out, in] f32
  at::Tensor alpha, beta;  // [out, groups] f32
  int64_t group = 0;
};

struct QdqResult {
  at::Tensor fake;   // [out, in], the weight's dtype
  at::Tensor codes;  // [out, in] uint8, unsigned codes
  at::Tensor scale;  // [out, groups] f32, exactly representable in f16
  at::Tensor zero;   // [out, groups] f32; 2^(bits-1) when symmetric
};

struct QdqGradients {
  at::Tensor value;        // [out, in] f32
  at::Tensor alpha, beta;  // [out, groups] f32
};

// The formulas of kernels/qdq/qdq.h with kRangeLimit, without gradient tracking.
QdqResult qdq_forward_aten(const QdqTensors& in, const Scheme& scheme);
QdqGradients qdq_backward_aten(const QdqTensors& in, const Scheme& scheme, const at::Tensor& fake_gradient);

}  // namespace quaver::quantize
