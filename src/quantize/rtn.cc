#include "quantize/rtn.h"

#include <algorithm>
#include <cmath>

#include "numerics/half.h"

namespace quaver::quantize {
namespace {

const float kSmallestScale = f16_to_float(float_to_f16(1e-5f));

float nearest_f16(float value) { return f16_to_float(float_to_f16(value)); }

struct Extremes {
  float low = 0.0f, high = 0.0f;  // of the group and zero
};

Extremes extremes_of(std::span<const float> values) {
  Extremes found;
  for (const float value : values) {
    found.low = std::min(found.low, value);
    found.high = std::max(found.high, value);
  }
  return found;
}

GroupGrid symmetric_grid(std::span<const float> values, int bits, bool bf16) {
  const Extremes extremes = extremes_of(values);
  const int middle = 1 << (bits - 1);
  const bool negative_wins = extremes.high < -extremes.low;
  float step = (negative_wins ? -extremes.low : -extremes.high) / static_cast<float>(middle);
  if (bf16) step = round_to_bf16(step);
  const float scale = nearest_f16(step);
  return {.scale = scale < 0 ? std::min(scale, -kSmallestScale) : std::max(scale, kSmallestScale),
          .zero = middle};
}

GroupGrid asymmetric_grid(std::span<const float> values, const RoundingProblem& problem, bool bf16) {
  const Extremes extremes = extremes_of(values);
  const int largest = (1 << problem.bits) - 1;
  const auto scale_over = [&](int steps) {
    float range = extremes.high - extremes.low;
    if (bf16) range = round_to_bf16(range);
    float step = range / static_cast<float>(steps);
    if (bf16) step = round_to_bf16(step);
    return std::max(nearest_f16(step), kSmallestScale);
  };
  GroupGrid grid{.scale = scale_over(largest)};
  grid.zero = static_cast<int>(std::nearbyint(std::min(-extremes.low / grid.scale, 1024.0f)));
  grid.zero = std::min(grid.zero, largest);
  if (problem.zero_from_one && grid.zero == 0) grid = {.scale = scale_over(largest - 1), .zero = 1};
  return grid;
}

}  // namespace

QuantWeight rtn(std::span<const float> weight, const RoundingProblem& problem) {
  const bool bf16 = is_bf16(weight);
  return round_groups(weight, problem, [&](int64_t, int64_t, std::span<const float> values) {
    return problem.sym ? symmetric_grid(values, problem.bits, bf16) : asymmetric_grid(values, problem, bf16);
  });
}

}  // namespace quaver::quantize
