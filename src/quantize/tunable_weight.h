// One weight under tuning: its learnable tensors and the fake-quantized weight they give.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "formats/quant_weight.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// AutoRound (Cheng et al., "Optimize Weight Rounding via Signed Gradient Descent for the Quantization of
// LLMs", 2023): a rounding offset V per weight and the ends of each group's range, moved by the signs of
// their gradients through a straight-through quantize-dequantize. Not thread safe.
class TunableWeight {
 public:
  virtual ~TunableWeight() = default;

  // Quantize-dequantize under the current parameters. Always the same tensor, overwritten; [out, in] in the
  // weight's dtype. It is a leaf that asks for a gradient.
  virtual const at::Tensor& fake_quantize() = 0;

  // Starts the ranges where the error of the weight is least; `importance` as in range_search.h.
  virtual void search_ranges(const at::Tensor& importance) = 0;

  // One step of sign descent from the loss's gradient with respect to fake_quantize()'s tensor, [out, in]. A
  // rate of 0 leaves its parameters alone.
  virtual void step(const at::Tensor& fake_gradient, float lr, float minmax_lr) = 0;

  // Codes and scales under the current parameters.
  virtual QuantWeight quantized() const = 0;
};

// `weight` is [out, in], contiguous, float32 or bfloat16, and is only read. `shared_amax` > 0 takes the place
// of the weight's largest magnitude where a scheme has one scale over all groups (layers that engines fuse
// share it).
std::unique_ptr<TunableWeight> make_tunable(at::Tensor weight, const Scheme& scheme, float shared_amax = 0);

// Output rows and input columns that share a scale, none beyond the weight's own.
Extent2d tile_of(const at::Tensor& weight, const Scheme& scheme);

// One code per byte, [out, in] uint8 on any device -> the bit streams of QuantWeight::codes.
Buffer packed_codes(const at::Tensor& codes, int bits);

}  // namespace quaver::quantize
