// Integers under tuning: V, alpha and beta.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "quantize/qdq_aten.h"
#include "quantize/tunable_weight.h"

namespace quaver::quantize {

// The formulas stand in kernels/qdq/qdq.h, with alpha and beta in [0, kRangeLimit]. V is [out, in], alpha and
// beta are [out, groups], all float32; V starts at 0, alpha and beta at 1. Memory per weight: V 4 bytes, and
// the fake-quantized weight.
class IntegerTunable : public TunableWeight {
 public:
  IntegerTunable(at::Tensor weight, const Scheme& scheme);

  const at::Tensor& fake_quantize() override;
  void search_ranges(const at::Tensor& importance) override;
  void step(const at::Tensor& fake_gradient, float lr, float minmax_lr) override;
  QuantWeight quantized() const override;  // scales in fp16

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
