// Which of its options each part of a model gets, so that the whole stays below a number of bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace quaver::quantize {

struct BitOption {
  double bits = 0;  // of all weights of the part, scales included
  double loss = 0;  // that it adds
};

// One index per part: the least sum of losses whose sum of bits is at most `budget`. Exact while no more than
// 4096 sums of bits are worth keeping, else within a 4096th of the span of bits for each part. Precondition:
// every part has an option, and the smallest ones fit the budget.
std::vector<size_t> allocate_bits(std::span<const std::vector<BitOption>> parts, double budget);

}  // namespace quaver::quantize
