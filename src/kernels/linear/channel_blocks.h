// How the input channels of a quantized weight are cut into blocks, and in which order x goes with them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear/kernel.h"

namespace quaver::kernels {

// Channels [begin, begin + length) of the sorted order share one scale. Lengths are at most kMaxBlock.
struct ChannelBlock {
  int32_t begin, length, group;
  int32_t padded_begin;  // where it starts when every block is padded to a multiple of 8
  int32_t steps() const { return (length + 7) / 8; }
};

constexpr int32_t kMaxBlock = 128;

struct BlockPlan {
  std::vector<int32_t> order;     // sorted place -> channel; empty when sorted already
  std::vector<float> multiplier;  // of x, by channel; empty when there is none
  std::vector<ChannelBlock> blocks;
  std::vector<int32_t> steps;  // of every block
  int64_t k = 0, group = 0, padded_k = 0;

  bool takes_x_as_it_is() const { return order.empty() && multiplier.empty(); }
  // Whether x prepared for one serves the other.
  bool prepares_like(const BlockPlan& other) const {
    return k == other.k && group == other.group && takes_x_as_it_is() && other.takes_x_as_it_is();
  }
};

BlockPlan plan_blocks(const WeightView& weight);

// An upper bound of padded_k and of the number of blocks, known without the permutation.
struct BlockBounds {
  int64_t padded_k, blocks;
};
BlockBounds bound_blocks(const LinearProblem& problem);

}  // namespace quaver::kernels
