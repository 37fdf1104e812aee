// One weight under tuning: the three learnable tensors V, alpha, beta and the fake-quantized weight they
// give.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "formats/quant_weight.h"
#include "quantize/qdq_aten.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// Integer quantize-dequantize with a straight-through gradient and sign descent (AutoRound: Cheng et al.,
// "Optimize Weight Rounding via Signed Gradient Descent for the Quantization of LLMs", 2023); the formulas
// stand in kernels/qdq/qdq.h, with alpha and beta in [0, kRangeLimit]. V is [out, in], alpha and beta are
// [out, groups], all float32; V starts at 0, alpha and beta at 1. Memory per weight: V 4 bytes, and the
// fake-quantized weight. Not thread safe.
class TunableWeight {
 public:
  // `weight` is [out, in], contiguous, float32 or bfloat16, and is only read.
  TunableWeight(at::Tensor weight, const Scheme& scheme);

  // Quantize-dequantize under the current V, alpha, beta. Always the same tensor, overwritten; [out, in] in
  // the weight's dtype. It is a leaf that asks for a gradient.
  const at::Tensor& fake_quantize();

  // Starts alpha and beta where search_ranges() of range_search.h finds the weight's error least.
  void search_ranges(const at::Tensor& importance);

  // One step of sign descent from the loss's gradient with respect to fake_quantize()'s tensor, [out, in]. A
  // rate of 0 leaves its parameters alone.
  void step(const at::Tensor& fake_gradient, float lr, float minmax_lr);

  // Integer codes, zeros and fp16 scales under the current V, alpha, beta.
  QuantWeight quantized() const;

 private:
  QdqTensors tensors() const { return {weight_, value_, alpha_, beta_, group_}; }
  QdqResult codes() const;  // without the fake-quantized weight

  at::Tensor weight_;  // [out, in]
  Scheme scheme_;
  int64_t group_;            // input channels per scale, at most `in`
  at::Tensor value_;         // V: [out, in]
  at::Tensor alpha_, beta_;  // [out, groups]
  at::Tensor fake_;          // [out, in]
};

}  // namespace quaver::quantize
