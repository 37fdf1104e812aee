#include "quantize/opt_rtn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quantize/float_sum.h"
#include "quantize/importance.h"
#include "quantize/rtn.h"

namespace quaver::quantize {
namespace {

constexpr float kSmallest = 1e-30f;    // reciprocals of less count as 0
constexpr double kSearchRatio = 0.75;  // of M, to either side
constexpr int kGrid = 200;

// Rounds intermediates as arithmetic in the weight's dtype does.
struct Bf16Arithmetic {
  static float round(float value) { return round_to_bf16(value); }
};
struct F32Arithmetic {
  static float round(float value) { return value; }
};

template <class Arithmetic>
float reciprocal(float value) {
  return std::abs(value) >= kSmallest ? Arithmetic::round(1.0f / value) : 0.0f;
}

// One group, padded with zeros to its full length.
struct SearchProblem {
  const float* values;
  const float* importance;  // null: all alike
  size_t count;
  int bits;
};

// Weighted squared errors of values [begin, end) under one scale; a lower bound of their sum.
template <class Arithmetic>
float squared_errors(const SearchProblem& p, float inverse, float scale, size_t begin, size_t end,
                     float* loss) {
  const auto middle = static_cast<float>(1 << (p.bits - 1));
  for (size_t i = begin; i < end; ++i) {
    const float steps = round_to_int(Arithmetic::round(inverse * p.values[i]));
    const float code = std::min(std::max(steps, -middle), middle - 1.0f);
    const float error = Arithmetic::round(Arithmetic::round(scale * code) - p.values[i]);
    loss[i] = error * error;
  }
  if (p.importance)
    for (size_t i = begin; i < end; ++i) loss[i] *= p.importance[i];
  float lanes[8] = {};
  for (size_t i = begin; i + 8 <= end; i += 8)
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += loss[i + lane];
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// sum h (s q - w)^2 with q = clamp(rne(w / s)), or anything above `bound` once that much is certain; most
// scales of the search give up in their first quarter. `loss` is scratch.
template <class Arithmetic>
float loss_of(const SearchProblem& p, float inverse, float scale, float bound, float* loss) {
  constexpr size_t kChunk = 32;
  constexpr float kSlack = 1.001f;  // far beyond what the order of the sum can change
  float known = 0.0f;
  for (size_t begin = 0; begin < p.count; begin += kChunk) {
    const size_t end = std::min(begin + kChunk, p.count);
    known += squared_errors<Arithmetic>(p, inverse, scale, begin, end, loss);
    if (known > bound * kSlack) return known;
  }
  return cascaded_sum(loss, p.count);
}

// How far the numerator of 1 / s walks from M, and in which steps.
struct SearchGrid {
  int steps = 0;  // to either side
  double delta = 0;
};

SearchGrid grid_for(int bits) {
  if (bits == 2) return {.steps = 90, .delta = 0.01};
  const double reach = (1 << (bits - 1)) * kSearchRatio, delta = reach / kGrid * 2;
  return {.steps = static_cast<int>(reach / delta), .delta = delta};
}

float largest_magnitude(const SearchProblem& p) {
  return *std::max_element(p.values, p.values + p.count,
                           [](float a, float b) { return std::abs(a) < std::abs(b); });
}

template <class Arithmetic>
float search_scale(const SearchProblem& p, std::vector<float>& scratch) {
  const double middle = 1 << (p.bits - 1);
  const SearchGrid grid = grid_for(p.bits);
  const float unit = reciprocal<Arithmetic>(largest_magnitude(p));
  scratch.resize(p.count);
  float inverse = static_cast<float>(-middle) * unit;
  float best_scale = reciprocal<Arithmetic>(inverse);
  float best_loss =
      loss_of<Arithmetic>(p, inverse, best_scale, std::numeric_limits<float>::infinity(), scratch.data());
  float last = inverse;
  for (int k = -grid.steps; k <= grid.steps; ++k) {
    inverse = Arithmetic::round(static_cast<float>(-(middle - grid.delta * k)) * unit);
    if (inverse == last || k == 0) continue;  // the same scale has the same loss, which does not win
    last = inverse;
    const float scale = reciprocal<Arithmetic>(inverse);
    const float loss = loss_of<Arithmetic>(p, inverse, scale, best_loss, scratch.data());
    if (loss < best_loss) best_loss = loss, best_scale = scale;
  }
  return best_scale;
}

template <class Arithmetic>
GroupGrid search_grid(const SearchProblem& p, std::vector<float>& scratch) {
  const float smallest = Arithmetic::round(1e-5f);
  const float scale = search_scale<Arithmetic>(p, scratch);
  return {.scale = scale < 0 ? std::min(scale, -smallest) : std::max(scale, smallest),
          .zero = 1 << (p.bits - 1)};
}

}  // namespace

QuantWeight opt_rtn(std::span<const float> weight, std::span<const float> importance,
                    const RoundingProblem& problem) {
  if (!problem.sym) return rtn(weight, problem);
  const bool bf16 = is_bf16(weight);
  const ImportanceTable table(importance, problem, bf16);
  return round_groups(weight, problem, [&](int64_t, int64_t group, std::span<const float> values) {
    static thread_local std::vector<float> padded, filled, scratch;
    padded.assign(values.begin(), values.end());
    padded.resize(static_cast<size_t>(problem.group_columns()), 0.0f);
    filled.resize(padded.size());
    if (!table.empty()) table.fill(group, padded, filled);
    const SearchProblem search{padded.data(), table.empty() ? nullptr : filled.data(), padded.size(),
                               problem.bits};
    GroupGrid grid =
        bf16 ? search_grid<Bf16Arithmetic>(search, scratch) : search_grid<F32Arithmetic>(search, scratch);
    grid.bf16_division = bf16;
    return grid;
  });
}

}  // namespace quaver::quantize
