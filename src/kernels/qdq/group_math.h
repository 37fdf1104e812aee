// The arithmetic of one group's scale and zero point, forward and backward; included by each qdq_row_*.cc,
// which brings its own rounding to f16. In an unnamed namespace, so that code made for one instruction set
// never stands in for another's.
#pragma once

#include "kernels/qdq/qdq_row.h"

namespace quaver::kernels {
namespace {

struct GroupScale {
  float scale, zero;             // w_hat = scale * (q - zero) with q the clamped integer; symmetric: zero 0
  float low, high;               // range of q
  float range_min, range_max;    // m- and m+
  float shrunk_min, shrunk_max;  // m- alpha and m+ beta
  bool floored;                  // |scale| was raised to its floor, which passes no gradient
  float steps;                   // asymmetric: what the range is divided by; zero is fixed when below high
};

// What one group's elements add up to, with dw = dL/dw_hat.
struct GroupSums {
  float scale = 0;    // sum dw * (q - zero - [in range] w / s)
  float clamped = 0;  // sum dw over elements out of range
};

inline float limited(const QdqRow& row, float x) {
  return x < 0.0f ? 0.0f : (x > row.range_limit ? row.range_limit : x);
}

template <class RoundF16>
GroupScale group_scale(const QdqRow& row, int64_t g, float range_min, float range_max,
                       const RoundF16& round_f16) {
  float alpha = row.alpha ? limited(row, row.alpha[g]) : 1.0f;
  float beta = row.beta ? limited(row, row.beta[g]) : 1.0f;
  GroupScale s = {};
  s.range_min = range_min;
  s.range_max = range_max;
  s.shrunk_min = range_min * alpha;
  s.shrunk_max = range_max * beta;
  const float floor = round_f16(1e-5f);
  auto levels = static_cast<float>(1 << row.bits);
  if (row.symmetric) {
    float a = -s.shrunk_min, c = s.shrunk_max, half = levels / 2;
    float raw = round_f16((c < a ? a : -c) / half);
    s.floored = (raw < 0 ? -raw : raw) < floor;
    s.scale = s.floored ? (raw < 0 ? -floor : floor) : raw;
    s.low = -half;
    s.high = half - 1;
    return s;
  }
  s.low = 0;
  s.high = s.steps = levels - 1;
  auto divide_range = [&] {
    float raw = round_f16((s.shrunk_max - s.shrunk_min) / s.steps);
    s.floored = raw < floor;
    s.scale = s.floored ? floor : raw;
  };
  divide_range();
  s.zero = __builtin_rintf(-s.shrunk_min / s.scale);
  if (!row.zero_from_one || s.zero >= 1) return s;
  s.steps = s.high - 1;
  divide_range();
  s.zero = 1;
  return s;
}

struct RangeGradient {
  float alpha, beta;
};

inline RangeGradient range_gradient(const QdqRow& row, const GroupScale& s, const GroupSums& sums) {
  if (row.symmetric) {
    float a = -s.shrunk_min, c = s.shrunk_max, half = -s.low;
    float d_largest = s.floored ? 0.0f : (c < a ? sums.scale : -sums.scale) / half;
    float share_a = a > c ? 1.0f : (a == c ? 0.5f : 0.0f);
    return {d_largest * share_a * -s.range_min, d_largest * (1.0f - share_a) * s.range_max};
  }
  // z = rne(-min / s): clamped elements pass -s dw to z, hence dw to min and -dw min / s to s.
  float through_zero = s.steps < s.high ? 0.0f : sums.clamped;
  float d_scale = s.floored ? 0.0f : sums.scale - through_zero * s.shrunk_min / s.scale;
  float d_min = through_zero - d_scale / s.steps, d_max = d_scale / s.steps;
  return {d_min * s.range_min, d_max * s.range_max};
}

inline float stepped(float value, float rate, float gradient) {
  return value - rate * static_cast<float>((gradient > 0) - (gradient < 0));
}

inline void finish_group(const QdqRow& row, int64_t g, const GroupScale& s, const GroupSums& sums) {
  RangeGradient d = range_gradient(row, s, sums);
  if (row.dalpha) row.dalpha[g] = d.alpha;
  if (row.dbeta) row.dbeta[g] = d.beta;
  if (row.range_rate == 0.0f) return;
  row.alpha[g] = stepped(limited(row, row.alpha[g]), row.range_rate, d.alpha);
  row.beta[g] = stepped(limited(row, row.beta[g]), row.range_rate, d.beta);
}

inline void store_group(const QdqRow& row, int64_t g, const GroupScale& s) {
  if (row.scale) row.scale[g] = s.scale;
  if (row.zero) row.zero[g] = row.symmetric ? -s.low : s.zero;
}

}  // namespace
}  // namespace quaver::kernels
