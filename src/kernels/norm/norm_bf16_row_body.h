// RMS normalisation of a bf16 row and its gradient on vectors; compiled by norm_bf16_row_avx2.cc and
// norm_bf16_row_avx512.cc.
#pragma once

#include "kernels/norm/norm_bf16_row.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

QUAVER_INLINE Mask lanes_from(const NormBf16Row& row, int64_t i) {
  return first_lanes(row.width - i < kLanes ? row.width - i : kLanes);
}

QUAVER_INLINE float inverse_rms(const NormBf16Row& row) {
  Vec even = zero(), odd = zero();
  for (int64_t i = 0; i < row.width; i += 2 * kLanes) {
    Vec a = load_bf16(row.x + i, lanes_from(row, i));
    even = fma(a, a, even);
    if (i + kLanes >= row.width) break;
    Vec b = load_bf16(row.x + i + kLanes, lanes_from(row, i + kLanes));
    odd = fma(b, b, odd);
  }
  float mean = sum_lanes(add(even, odd)) / static_cast<float>(row.width);
  return 1.0f / __builtin_sqrtf(mean + row.epsilon);
}

QUAVER_INLINE void norm_bf16_forward(const NormBf16Row& row) {
  Vec inverse = splat(inverse_rms(row));
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = lanes_from(row, i);
    Vec normal = mul(load_bf16(row.x + i, m), inverse);
    if (row.round_first) normal = as_float(shift_left<16>(bf16_bits(normal)));
    store_bf16(row.out + i, mul(normal, load(row.weight + i, m)), m);
  }
}

QUAVER_INLINE void norm_bf16_gradient(const NormBf16Row& row) {
  float inverse = inverse_rms(row);
  Vec along = zero();
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = lanes_from(row, i);
    Vec g = mul(load_bf16(row.dy + i, m), load(row.weight + i, m));
    along = fma(g, load_bf16(row.x + i, m), along);
  }
  Vec mean = splat(sum_lanes(along) * inverse / static_cast<float>(row.width)), factor = splat(inverse);
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = lanes_from(row, i);
    Vec g = mul(load_bf16(row.dy + i, m), load(row.weight + i, m));
    Vec normal = mul(load_bf16(row.x + i, m), factor);
    store_bf16(row.out + i, mul(factor, fnma(normal, mean, g)), m);
  }
}

QUAVER_INLINE void norm_bf16_row(const NormBf16Row& row) {
  row.dy ? norm_bf16_gradient(row) : norm_bf16_forward(row);
}

}  // namespace
}  // namespace quaver::kernels
