// How much the model's answers change when one of its layers is rounded, estimated for many schemes at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "models/llm/causal_lm.h"
#include "quantize/layer_rounding.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

struct SensitivityProblem {
  const models::CausalLm& shell;
  std::function<std::unique_ptr<models::DecoderBlock>(int64_t)> load_block;  // the original one
  at::Tensor tokens;                                                         // int64 [rows, seqlen]
  std::vector<Scheme> schemes;
  RoundingMethod rounding = RoundingMethod::kSearched;
  uint64_t seed = 42;
};

// By layer: for each scheme the divergence KL(original || one layer rounded), nats per token, to second
// order. That order is half the variance of the loss's change over answers drawn from the model itself (its
// Fisher information), and the change is g dy: g the gradient of -log p(drawn token) in the layer's output,
// dy what rounding changes there. Summed over positions as if they were independent; inputs are quantized
// where the scheme asks for it. 16 bits lose nothing; layers that saw no token have 0 for every scheme.
// Rows run on all processors, one each. Memory: one block and its roundings, each block's input, and what
// gradients need of one row for each thread. No number depends on the threads.
std::map<std::string, std::vector<double>> measure_sensitivity(const SensitivityProblem& problem,
                                                               ProgressSink& progress);

}  // namespace quaver::quantize
