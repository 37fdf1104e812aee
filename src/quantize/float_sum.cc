#include "quantize/float_sum.h"

#include <algorithm>
#include <bit>

namespace quaver::quantize {
namespace {

constexpr size_t kLanes = 8, kStrands = 4, kLevels = 4, kRow = kLanes * kStrands;

// One accumulator per lane and strand.
struct Row {
  float sum[kRow] = {};

  void add(const float* values) {
    for (size_t i = 0; i < kRow; ++i) sum[i] += values[i];
  }
};

// Adds `rows` rows; every 2^power of them move up one level, so that no accumulator grows far beyond its
// addends.
Row cascade(const float* values, size_t rows) {
  const size_t ceil_log2 = rows <= 1 ? 0 : std::bit_width(rows - 1);
  const size_t power = std::max<size_t>(4, ceil_log2 / kLevels), step = size_t{1} << power;
  Row total;
  if (rows < step) {  // as below, with nothing above the lowest level
    for (size_t row = 0; row < rows; ++row) total.add(values + row * kRow);
    return total;
  }
  Row levels[kLevels];
  size_t row = 0;
  while (row + step <= rows) {
    for (size_t i = 0; i < step; ++i, ++row) levels[0].add(values + row * kRow);
    for (size_t level = 1; level < kLevels; ++level) {
      levels[level].add(levels[level - 1].sum);
      levels[level - 1] = {};
      if ((row & ((step - 1) << (level * power))) != 0) break;
    }
  }
  for (; row < rows; ++row) levels[0].add(values + row * kRow);
  total = levels[0];
  for (size_t level = 1; level < kLevels; ++level) total.add(levels[level].sum);
  return total;
}

}  // namespace

float cascaded_sum(const float* values, size_t count) {
  const size_t vectors = count / kLanes, rows = vectors / kStrands;
  Row total = cascade(values, rows);
  for (size_t vector = rows * kStrands; vector < vectors; ++vector)
    for (size_t lane = 0; lane < kLanes; ++lane) total.sum[lane] += values[vector * kLanes + lane];
  for (size_t strand = 1; strand < kStrands; ++strand)
    for (size_t lane = 0; lane < kLanes; ++lane) total.sum[lane] += total.sum[strand * kLanes + lane];
  float sum = 0.0f;
  for (size_t i = vectors * kLanes; i < count; ++i) sum += values[i];
  for (size_t lane = 0; lane < kLanes; ++lane) sum += total.sum[lane];
  return sum;
}

}  // namespace quaver::quantize
