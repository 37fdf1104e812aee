// RMS normalisation of a row on vectors; compiled by norm_row_avx2.cc and norm_row_avx512.cc.
#pragma once

#include "kernels/norm/norm_row.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

// Adds x to the residual when there is one; returns the sum of squares of what is to be normalised. Four
// chains, joined in a fixed order.
QUAVER_INLINE float sum_of_squares(const NormRow& row) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  int chain = 0;
  for (int64_t i = 0; i < row.width; i += kLanes, chain = (chain + 1) & 3) {
    Mask m = first_lanes(row.width - i < kLanes ? row.width - i : kLanes);
    Vec x = load(row.x + i, m);
    if (row.residual) {
      x = add(x, load(row.residual + i, m));
      store(row.residual + i, x, m);
    }
    sums[chain] = fma(x, x, sums[chain]);
  }
  return sum_lanes(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

QUAVER_INLINE void rms_norm_row(const NormRow& row) {
  float mean = sum_of_squares(row) / static_cast<float>(row.width);
  Vec inverse = splat(1.0f / __builtin_sqrtf(mean + row.epsilon));
  const float* x = row.residual ? row.residual : row.x;
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = first_lanes(row.width - i < kLanes ? row.width - i : kLanes);
    Vec y = mul(load(x + i, m), inverse);
    if (row.weight) y = mul(y, add(splat(row.weight_offset), load(row.weight + i, m)));
    store(row.y + i, y, m);
  }
}

}  // namespace
}  // namespace quaver::kernels
