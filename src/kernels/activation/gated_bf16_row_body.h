// bf16 gated activations and their gradients on vectors; compiled by gated_bf16_row_avx2.cc and
// gated_bf16_row_avx512.cc.
#pragma once

#include "kernels/activation/gated_bf16_row.h"
#include "kernels/simd_math.h"

namespace quaver::kernels {
namespace {

// Beyond it the logistic function is 0 or 1 in fp32, and a cube would leave the range of floats.
constexpr float kFar = 110.0f;

struct GateValue {
  Vec f, slope;
};

template <GateFunction kFunction>
QUAVER_INLINE GateValue gate_value(Vec x) {
  Vec near = max(splat(-kFar), min(splat(kFar), x)), u = near, du = splat(1.0f);
  if constexpr (kFunction == GateFunction::kGeluTanh) {
    Vec square = mul(near, near), twice = splat(1.5957691216f);
    u = mul(twice, fma(mul(square, near), splat(0.044715f), near));
    du = mul(twice, fma(square, splat(3 * 0.044715f), splat(1.0f)));
  }
  Vec logistic = div(splat(1.0f), add(splat(1.0f), exp(sub(zero(), u))));
  return {mul(x, logistic), fma(mul(mul(near, logistic), sub(splat(1.0f), logistic)), du, logistic)};
}

template <GateFunction kFunction>
QUAVER_INLINE void gated_bf16_row(const GatedBf16Row& row) {
  for (int64_t i = 0; i < row.width; i += kLanes) {
    Mask m = first_lanes(row.width - i < kLanes ? row.width - i : kLanes);
    GateValue value = gate_value<kFunction>(load_bf16(row.gate + i, m));
    Vec up = load_bf16(row.up + i, m);
    if (!row.dy) {
      store_bf16(row.y + i, mul(as_float(shift_left<16>(bf16_bits(value.f))), up), m);
      continue;
    }
    Vec dy = load_bf16(row.dy + i, m);
    store_bf16(row.dgate + i, mul(mul(dy, up), value.slope), m);
    store_bf16(row.dup + i, mul(dy, value.f), m);
  }
}

QUAVER_INLINE void gated_bf16_row(const GatedBf16Row& row) {
  row.function == GateFunction::kSilu ? gated_bf16_row<GateFunction::kSilu>(row)
                                      : gated_bf16_row<GateFunction::kGeluTanh>(row);
}

}  // namespace
}  // namespace quaver::kernels
