// Rotates one head on vectors; compiled by rope_head_avx2.cc and rope_head_avx512.cc.
#pragma once

#include "kernels/rope/rope_head.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

QUAVER_INLINE void rope_head(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; i += kLanes) {
    Mask m = first_lanes(half - i < kLanes ? half - i : kLanes);
    Vec a = load(x + i, m), b = load(x + half + i, m), c = load(cos + i, m), s = load(sin + i, m);
    store(x + i, fnma(b, s, mul(a, c)), m);
    store(x + half + i, fma(a, s, mul(b, c)), m);
  }
}

}  // namespace
}  // namespace quaver::kernels
