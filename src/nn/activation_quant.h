// What a checkpoint asks of a layer's input: rounded to codes and back to numbers before it is multiplied.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "formats/quant_weight.h"
#include "nn/rank_group.h"

namespace quaver::nn {

// x [..., in] of any floating dtype and device, as `quant` can store it; computed in float32, returned in x's
// dtype. Values are divided by their scale, rounded to the nearest code, ties to even, and cut at the largest
// code, as the CPU references of compressed-tensors 0.19 (_quantize_dequantize), auto-round 0.16
// (experimental/qmodules) and Quark 0.13 (scaled_fake_quantize) do; a last group that `in` does not fill is
// filled with zeros. NaN stays NaN; so does, where scales are dynamic, the whole group of a NaN or an
// infinity, or the whole row where the second level is the row's. Static scales cut infinities like any
// number.
// kDynamic over the whole tensor, and the search for outlier columns, look at all rows of x together: there a
// token's result depends on its neighbours. Where x is one rank's columns of an input that `ranks` divide,
// scales of whole rows and tensors are those of the whole input; groups must not be cut. Error(kInternal) for
// elements and scales that no reader sets.
at::Tensor quantize_dequantize(const at::Tensor& x, const ActivationQuant& quant,
                               const RankGroup* ranks = nullptr);

// "e4m3fn per token", "e2m1 g16", "e2m1 g16 under a scale per token", "int8 static".
std::string describe(const ActivationQuant& quant);

// The quantization of one layer's input with what comes before it.
class InputQuant {
 public:
  InputQuant() = default;  // leaves the input as it is
  // `multiplier` is QuantWeight::input_multiplier; `ranks`, borrowed, as above.
  InputQuant(const ActivationQuant& quant, const std::vector<float>& multiplier, at::Device device,
             const RankGroup* ranks = nullptr);

  bool active() const { return quant_.mode != ActivationQuant::Mode::kNone; }
  const ActivationQuant& quant() const { return quant_; }
  // [..., in], in x's dtype. Gradients pass straight through the rounding.
  at::Tensor apply(const at::Tensor& x) const;
  // Whether the other makes the same of every x; false where both have multipliers, equal or not.
  bool agrees_with(const InputQuant& other) const;

 private:
  ActivationQuant quant_;
  at::Tensor multiplier_;  // float32 [in]; undefined when there is none
  const RankGroup* ranks_ = nullptr;
};

}  // namespace quaver::nn
