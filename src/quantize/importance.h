// The weight of each element in the search for scales: the calibration's sums, with holes filled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quantize/rounding.h"

namespace quaver::quantize {

// Importance per input channel, cut into groups and filled up to whole ones. Immutable.
class ImportanceTable {
 public:
  // `importance` has `in` values or none. Error(kInvalidInput) for another count, Error(kNonFinite) for NaN,
  // infinity or a negative value.
  ImportanceTable(std::span<const float> importance, const RoundingProblem& problem, bool bf16);

  bool empty() const { return values_.empty(); }

  // For the padded values of one group of one row; `target` has as many.
  void fill(int64_t group, std::span<const float> padded, std::span<float> target) const;

 private:
  bool mostly_zero(int64_t group) const;
  float magnitude_offset(std::span<const float> padded) const;

  std::vector<float> values_;        // [groups, group_columns]
  std::vector<int64_t> zero_count_;  // per group
  int64_t columns_ = 0;
  int64_t zero_limit_ = 0;  // a group with more zeros than this is not trusted
  int bits_ = 4;
  bool bf16_ = true;
  bool any_zero_ = false, any_sparse_ = false;
};

}  // namespace quaver::quantize
