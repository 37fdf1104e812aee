// Passes over logits on vectors; compiled by logit_ops_avx2.cc and logit_ops_avx512.cc.
#pragma once

#include "kernels/sampling/logit_ops.h"
#include "kernels/simd_math.h"

namespace quaver::kernels {
namespace {

const float kInfinity = __builtin_inff();

QUAVER_INLINE Mask lanes_at(int64_t i, int64_t n) { return first_lanes(n - i < kLanes ? n - i : kLanes); }

float max_of(const float* x, int64_t n) {
  Vec best[4] = {splat(-kInfinity), splat(-kInfinity), splat(-kInfinity), splat(-kInfinity)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int c = 0; c < 4; ++c) best[c] = max(load(x + i + c * kLanes), best[c]);
  for (; i < n; i += kLanes) {
    Mask m = lanes_at(i, n);
    best[0] = max(where(m, load(x + i, m), splat(-kInfinity)), best[0]);
  }
  return max_lane(max(max(best[0], best[1]), max(best[2], best[3])));
}

bool acceptable(const float* x, int64_t n) {
  uint32_t bad = 0, finite = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    Mask m = lanes_at(i, n);
    Vec v = load(x + i, m);
    uint32_t in_row = bits_of(m), below = bits_of(less(v, splat(kInfinity)));
    bad |= in_row & ~below;  // NaN and +infinity alike
    finite |= in_row & below & bits_of(less(splat(-kInfinity), v));
  }
  return finite != 0 && bad == 0;
}

int64_t find_equal(const float* x, int64_t n, float value) {
  for (int64_t i = 0; i < n; i += kLanes) {
    Mask m = lanes_at(i, n);
    uint32_t hit = bits_of(both(m, equal(load(x + i, m), splat(value))));
    if (hit != 0) return i + __builtin_ctz(hit);
  }
  return n;
}

int64_t count_above(const float* x, int64_t n, float value) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    Mask m = lanes_at(i, n);
    count += __builtin_popcount(bits_of(both(m, less(splat(value), load(x + i, m)))));
  }
  return count;
}

int64_t collect(const float* x, int64_t n, float threshold, int32_t* out) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    Mask m = lanes_at(i, n);
    uint32_t hits = bits_of(both(m, less_equal(splat(threshold), load(x + i, m))));
    for (; hits != 0; hits &= hits - 1) out[count++] = static_cast<int32_t>(i + __builtin_ctz(hits));
  }
  return count;
}

// Float sums of 512 terms at most per lane, then double: relative error about 512 * 2^-24 at worst, 1e-6 in
// practice.
double sum_exp(const float* x, int64_t n, float max, float inverse_temperature) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 512 * kLanes) {
    int64_t end = n - begin < 512 * kLanes ? n : begin + 512 * kLanes;
    Vec sum = zero();
    for (int64_t i = begin; i < end; i += kLanes) {
      Mask m = lanes_at(i, end);
      Vec scaled = mul(sub(load(x + i, m), splat(max)), splat(inverse_temperature));
      sum = add(sum, keep(m, exp(scaled)));
    }
    total += static_cast<double>(sum_lanes(sum));
  }
  return total;
}

}  // namespace
}  // namespace quaver::kernels
