// Updates of low rank beside the weights (LoRA): which of a model's adapters run, and how strongly.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "nn/linear.h"

namespace quaver::nn {

// A model holds the updates of all its adapters, and stays constant; a thread says which of them its forward
// passes add. While one lives, the thread's layers add the update of adapter i scales[i] times; adapters
// beyond the end, and those with 0, as if they weren't there. An inner scope replaces the outer one.
class LowRankScope {
 public:
  explicit LowRankScope(std::vector<double> scales);
  ~LowRankScope();
  LowRankScope(const LowRankScope&) = delete;
  LowRankScope& operator=(const LowRankScope&) = delete;

 private:
  std::vector<double> scales_;
  const std::vector<double>* outer_;
};

// The scales of the thread's innermost scope; empty outside of one.
std::span<const double> low_rank_scales();

// y += scale * (x down^T) up^T in x's dtype, for each update whose adapter runs.
void add_low_rank(std::span<const Linear::LowRank> updates,
                  const at::Tensor& x,  // [..., in]
                  at::Tensor& y);       // [..., out], x's dtype, contiguous

}  // namespace quaver::nn
