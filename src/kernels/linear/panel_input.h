// Rows of x, brought into the block order of a weight's panels.
#pragma once

#include <cstdint>

#include "kernels/linear/channel_blocks.h"
#include "kernels/linear/panels.h"

namespace quaver::kernels {

using QuantizeBlock = QuantizedBlock (*)(const float* x, int64_t n, int8_t* codes);

// In the caller's workspace: 8-bit codes, or floats.
struct PanelInput {
  int8_t* codes = nullptr;  // [m, padded_k]
  float* scales = nullptr;  // [m, blocks]
  int32_t* sums = nullptr;  // [m, blocks]
  float* values = nullptr;  // [m, padded_k]

  // Points the panel's activations at row `row`.
  void give(CodePanel& panel, int64_t row) const;
};

size_t panel_input_bytes(const LinearProblem& problem, int64_t m, bool quantized);

// `quantize` null: floats. The workspace is panel_input_bytes long.
PanelInput prepare_input(const BlockPlan& plan, const LinearInput& input, QuantizeBlock quantize);

}  // namespace quaver::kernels
