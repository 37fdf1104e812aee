// What rounding a weight matrix to integers needs besides the choice of scales: the problem, and codes from
// scales.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "formats/quant_weight.h"

namespace quaver {
class ThreadPool;
}

namespace quaver::quantize {

struct RoundingProblem {
  int64_t out = 0, in = 0;
  int bits = 4;         // 2 to 8
  int64_t group = 128;  // input channels that share a scale; -1 = the whole row
  bool sym = true;
  // Asymmetric zero points stay in [1, 2^bits - 1], for formats that store z - 1.
  bool zero_from_one = false;
  std::string_view what = "weight";  // begins error messages
  int64_t first_row = 0;             // of a matrix that these rows are cut from, for messages
  ThreadPool* pool = nullptr;        // null: the calling thread alone

  int64_t group_columns() const { return group == -1 || group > in ? in : group; }
  int64_t groups() const { return (in + group_columns() - 1) / group_columns(); }
};

// The scale and zero point of one group: code = clamp(rne(w / scale) + zero, 0, 2^bits - 1).
struct GroupGrid {
  float scale = 1.0f;          // what codes are computed with; stored as f16
  int zero = 0;                // 2^(bits-1) when symmetric
  bool bf16_division = false;  // w / scale is rounded to bfloat16 first
};

// Rounds every group of every row by the grid that `choose(row, group, values)` gives it; called from several
// threads at once when the problem has a pool. Error(kInvalidInput) for sizes that are no matrix or a scheme
// that can't be had, Error(kNonFinite) for a weight that is not finite or a scale beyond f16.
QuantWeight round_groups(std::span<const float> weight, const RoundingProblem& problem,
                         const std::function<GroupGrid(int64_t, int64_t, std::span<const float>)>& choose);

// True when every value is a bfloat16. The original tool computes in the weight's dtype, so scales of
// bfloat16 weights are rounded to bfloat16 on their way.
bool is_bf16(std::span<const float> weight);

// To nearest bfloat16, ties to even. Precondition: finite and not so large that it rounds to infinity.
inline float round_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

// To nearest integer, ties to even. Precondition: |value| < 2^22. Vectorizes where std::nearbyint does not.
inline float round_to_int(float value) { return (value + 0x1.8p23f) - 0x1.8p23f; }

}  // namespace quaver::quantize
