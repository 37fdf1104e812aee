// Finds a scheme for each layer under a mean of bits: what the format can say, measured and mixed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/progress.h"
#include "formats/format.h"
#include "models/llm/causal_lm.h"
#include "quantize/calibration.h"
#include "quantize/layer_rounding.h"
#include "quantize/scheme_mix.h"

namespace quaver::quantize {

struct SchemeSearch {
  std::vector<Scheme> options;  // 16 bits may be among them
  double mean_bits = 0;
  RoundingMethod rounding = RoundingMethod::kSearched;
  uint64_t seed = 42;
};

// Text to measure on: at most 16 rows of 256 tokens.
CalibrationOptions search_text(CalibrationOptions options);

// Error(kInvalidInput) before any work where the format has no words for such a mix or the mean can't be had;
// otherwise as measure_sensitivity() and mix_schemes().
MixedBits search_schemes(const SchemeSearch& search, std::span<const LayerShape> layers,
                         std::vector<LayerDecision> decisions, const Format& format,
                         const models::CausalLm& shell,
                         const std::function<std::unique_ptr<models::DecoderBlock>(int64_t)>& load_block,
                         const at::Tensor& tokens,  // int64 [rows, seqlen]
                         ProgressSink& progress);

// That of the most weights, 16 bits aside; `base` where all are at 16.
Scheme most_used_scheme(std::span<const LayerShape> layers, std::span<const LayerDecision> decisions,
                        const Scheme& base);

}  // namespace quaver::quantize
