// A register tile of y = x P on vectors: some rows of x against one panel of 2 * kLanes columns. Include only
// from *_avx2.cc and *_avx512.cc files.
#pragma once

#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

constexpr int kPanel = 2 * kLanes;
constexpr int kTileRowsMax = kLanes == 16 ? 12 : 6;  // 24 or 12 accumulators

struct PanelTile {
  const float* x;  // rows x_stride apart, k long
  int64_t x_stride;
  const float* panel;  // [k, kPanel], panel_stride apart
  int64_t panel_stride;
  int64_t k;
  float* y;  // rows y_stride apart, kPanel long
  int64_t y_stride;
  bool accumulate;  // y += instead of y =
};

// One chain of fused multiply-adds per element, in the order of k: the same bits whatever Rows is.
template <int Rows>
QUAVER_INLINE void panel_tile(const PanelTile& t) {
  Vec acc[Rows][2];
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
    acc[r][0] = t.accumulate ? load(t.y + r * t.y_stride) : zero();
    acc[r][1] = t.accumulate ? load(t.y + r * t.y_stride + kLanes) : zero();
  });
  const float* p = t.panel;
  for (int64_t i = 0; i < t.k; ++i, p += t.panel_stride) {
    Vec w0 = load(p), w1 = load(p + kLanes);
    unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
      Vec x = splat(t.x[r * t.x_stride + i]);
      acc[r][0] = fma(x, w0, acc[r][0]);
      acc[r][1] = fma(x, w1, acc[r][1]);
    });
  }
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
    store(t.y + r * t.y_stride, acc[r][0]);
    store(t.y + r * t.y_stride + kLanes, acc[r][1]);
  });
}

template <int Rows>
void panel_tile_of(const PanelTile& t, int64_t rows) {
  if (rows == Rows) return panel_tile<Rows>(t);
  if constexpr (Rows > 1) panel_tile_of<Rows - 1>(t, rows);
}

// Any number of rows.
inline void panel_rows(PanelTile t, int64_t rows) {
  for (; rows > 0; rows -= kTileRowsMax) {
    panel_tile_of<kTileRowsMax>(t, rows < kTileRowsMax ? rows : kTileRowsMax);
    t.x += kTileRowsMax * t.x_stride;
    t.y += kTileRowsMax * t.y_stride;
  }
}

}  // namespace
}  // namespace quaver::kernels
