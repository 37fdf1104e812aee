// Plain weights against float activations on vectors; compiled by plain_panel_avx2.cc and
// plain_panel_avx512.cc.
#pragma once

#include "kernels/linear/panels.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

constexpr int kPanelRows = 2 * kLanes;
constexpr int kMaxRows = kLanes == 16 ? 12 : 6;  // 24 or 12 accumulators

template <PlainElement Element>
QUAVER_INLINE void load_weights(const void* base, int64_t k, Vec& w0, Vec& w1) {
  if constexpr (Element == PlainElement::kF32) {
    const float* p = static_cast<const float*>(base) + k * kPanelRows;
    w0 = load(p);
    w1 = load(p + kLanes);
  } else if constexpr (Element == PlainElement::kF16) {
    const uint16_t* p = static_cast<const uint16_t*>(base) + k * kPanelRows;
    w0 = load_f16(p);
    w1 = load_f16(p + kLanes);
  } else {
    VecI pairs = load_int(static_cast<const uint16_t*>(base) + k * kPanelRows);
    w0 = as_float(shift_left<16>(pairs));
    w1 = as_float(and_int(pairs, splat_int(static_cast<int32_t>(0xffff0000u))));
  }
}

QUAVER_INLINE Mask valid_lanes(int64_t valid, int c) {
  int64_t left = valid - c * kLanes;
  return first_lanes(left < 0 ? 0 : (left < kLanes ? left : kLanes));
}

// One chain of fused multiply-adds per element, in the order of k: the same bits whatever Rows is.
template <PlainElement Element, int Rows>
QUAVER_INLINE void plain_tile(const PlainPanel& p, const float* x, float* y) {
  Vec acc[Rows][2];
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA { acc[r][0] = acc[r][1] = zero(); });
  for (int64_t i = 0; i < p.k; ++i) {
    Vec w0, w1;
    load_weights<Element>(p.weight, i, w0, w1);
    unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
      Vec value = splat(x[r * p.x_stride + i]);
      acc[r][0] = fma(value, w0, acc[r][0]);
      acc[r][1] = fma(value, w1, acc[r][1]);
    });
  }
  Mask m0 = valid_lanes(p.valid, 0), m1 = valid_lanes(p.valid, 1);
  Vec bias0 = p.bias ? load(p.bias, m0) : zero(), bias1 = p.bias ? load(p.bias + kLanes, m1) : zero();
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
    store(y + r * p.y_stride, add(acc[r][0], bias0), m0);
    store(y + r * p.y_stride + kLanes, add(acc[r][1], bias1), m1);
  });
}

template <PlainElement Element, int Rows>
void plain_tile_of(const PlainPanel& p, const float* x, float* y, int64_t rows) {
  if (rows == Rows) return plain_tile<Element, Rows>(p, x, y);
  if constexpr (Rows > 1) plain_tile_of<Element, Rows - 1>(p, x, y, rows);
}

template <PlainElement Element>
void plain_rows(const PlainPanel& p) {
  for (int64_t r = 0; r < p.m; r += kMaxRows)
    plain_tile_of<Element, kMaxRows>(p, p.x + r * p.x_stride, p.y + r * p.y_stride,
                                     p.m - r < kMaxRows ? p.m - r : kMaxRows);
}

QUAVER_INLINE void plain_panel(const PlainPanel& p) {
  if (p.element == PlainElement::kF32) return plain_rows<PlainElement::kF32>(p);
  if (p.element == PlainElement::kF16) return plain_rows<PlainElement::kF16>(p);
  plain_rows<PlainElement::kBF16>(p);
}

}  // namespace
}  // namespace quaver::kernels
