// Shows tensors that stack one matrix per expert as tensors of their own.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"

namespace quaver::models {

// Plain "<module>.experts." gate_up_proj [experts, in, 2 inner] and down_proj [experts, inner, out], and
// their biases gate_up_proj_bias [experts, 2 inner] and down_proj_bias [experts, out], become
// "<module>.experts.<e>.gate_proj.weight" [inner, in] and so on: each linear layer's matrix [out, in], even
// columns of gate_up_proj the gate's, odd ones up's. All other tensors stay as they are, quantized stacks
// included: their format splits those. Each read copies one expert's part. Error(kBadFile) names file,
// tensor, expected and got.
std::unique_ptr<Checkpoint> split_interleaved_experts(std::unique_ptr<Checkpoint> folder);

}  // namespace quaver::models
