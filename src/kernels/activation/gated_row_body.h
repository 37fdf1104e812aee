// Gated activations on vectors; compiled by gated_row_avx2.cc and gated_row_avx512.cc.
#pragma once

#include "kernels/activation/gated_row.h"
#include "kernels/simd_math.h"

namespace quaver::kernels {
namespace {

// x / (1 + exp(-u)), that is x times the logistic function of u.
QUAVER_INLINE Vec logistic_times(Vec x, Vec u) { return div(x, add(splat(1.0f), exp(sub(zero(), u)))); }

QUAVER_INLINE Vec silu(Vec x) { return logistic_times(x, x); }

QUAVER_INLINE Vec gelu_tanh(Vec x) {  // (1 + tanh u) / 2 is the logistic function of 2u
  Vec inner = fma(mul(mul(x, x), x), splat(0.044715f), x);
  return logistic_times(x, mul(splat(1.5957691216f), inner));
}

template <Vec (*Function)(Vec)>
QUAVER_INLINE void gated_row(const GatedRow& row) {
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = first_lanes(row.width - i < kLanes ? row.width - i : kLanes);
    store(row.y + i, mul(Function(load(row.gate + i, m)), load(row.up + i, m)), m);
  }
}

QUAVER_INLINE void clamped_silu_row(const GatedRow& row) {
  Vec high = splat(row.limit), low = splat(-row.limit), alpha = splat(row.alpha);
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = first_lanes(row.width - i < kLanes ? row.width - i : kLanes);
    Vec gate = min(high, load(row.gate + i, m)), up = min(high, max(low, load(row.up + i, m)));
    store(row.y + i, mul(logistic_times(gate, mul(alpha, gate)), add(up, splat(1.0f))), m);
  }
}

}  // namespace
}  // namespace quaver::kernels
