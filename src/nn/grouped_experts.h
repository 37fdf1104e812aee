// The experts of a mixture as one product for each projection, over the weights of all of them stacked.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "nn/mlp.h"

namespace quaver::nn {

// True where grouped_experts may take them: plain weights whose sides are multiples of 8 (16 bytes of
// bfloat16, as the GPU's product wants them), biases for all or none, and inputs that are quantized alike,
// each row by itself.
bool can_group(const std::vector<Mlp>& experts);

// Each expert on its rows, [rows, hidden] -> the same: `x` in ascending order of expert, of which `sizes`
// (int64 [experts], on x's device) holds the numbers of rows. Copies all weights; differentiable in them
// (zero for an expert without rows) and in x. Precondition: can_group.
at::Tensor grouped_experts(const std::vector<Mlp>& experts, const at::Tensor& x, const at::Tensor& sizes);

}  // namespace quaver::nn
