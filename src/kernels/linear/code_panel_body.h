// What the kernels over panels of codes share: loading the codes of 8 channels, storing a tile, all rows of
// x. Compiled by *_panel_a8_*.cc and *_panel_a32_*.cc.
#pragma once

#include "kernels/linear/panel_scales_body.h"

namespace quaver::kernels {
namespace {

QUAVER_INLINE Mask valid_lanes(int64_t valid, int c) {
  int64_t left = valid - c * kLanes;
  return first_lanes(left < 0 ? 0 : (left < kLanes ? left : kLanes));
}

// The codes of 8 channels as unsigned bytes: first[c] has channels 0-3 of vector c's rows, second[c] channels
// 4-7.
struct Step {
  VecI first[2], second[2];
};

template <int Bits>
QUAVER_INLINE Step load_step(const uint8_t* codes) {
  constexpr int kBytes = kLanes * 4;
  Step s;
  if constexpr (Bits == 2) {
    VecI mask = splat_int(0x03030303), all = load_int(codes);
    s.first[0] = and_int(all, mask);
    s.second[0] = and_int(shift_right<2>(all), mask);
    s.first[1] = and_int(shift_right<4>(all), mask);
    s.second[1] = and_int(shift_right<6>(all), mask);
  } else if constexpr (Bits == 4) {
    VecI mask = splat_int(0x0f0f0f0f);
    for (int c = 0; c < 2; ++c) {
      VecI both = load_int(codes + c * kBytes);
      s.first[c] = and_int(both, mask);
      s.second[c] = and_int(shift_right<4>(both), mask);
    }
  } else {
    for (int c = 0; c < 2; ++c) {
      s.first[c] = load_int(codes + c * kBytes);
      s.second[c] = load_int(codes + (2 + c) * kBytes);
    }
  }
  return s;
}

QUAVER_INLINE VecI zero_points(const CodePanel& p, int64_t block, int c) {
  return p.zeros ? widen_u8(p.zeros + block * kPanelRows + c * kLanes) : splat_int(p.zero);
}

template <int Rows>
QUAVER_INLINE void store_tile(const CodePanel& p, const Vec (&total)[Rows][2], float* y) {
  Mask m0 = valid_lanes(p.valid, 0), m1 = valid_lanes(p.valid, 1);
  Vec bias0 = p.bias ? load(p.bias, m0) : zero(), bias1 = p.bias ? load(p.bias + kLanes, m1) : zero();
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
    store(y + r * p.y_stride, add(total[r][0], bias0), m0);
    store(y + r * p.y_stride + kLanes, add(total[r][1], bias1), m1);
  });
}

// Calls Tile<Codes, Rows> for up to MaxRows rows at a time.
template <template <class, int> class Tile, class Codes, int Rows>
void tile_of(const CodePanel& p, int64_t first, int64_t rows) {
  if (rows == Rows) return Tile<Codes, Rows>::run(p, first);
  if constexpr (Rows > 1) tile_of<Tile, Codes, Rows - 1>(p, first, rows);
}

// Checks of the sanitizers on unrolled code take a compiler minutes: lower tiles are made of the same code.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kHighestTile = 3;
#else
constexpr int kHighestTile = 12;
#endif

template <template <class, int> class Tile, class Codes, int MaxRows>
void all_rows(const CodePanel& p) {
  constexpr int kRows = MaxRows < kHighestTile ? MaxRows : kHighestTile;
  for (int64_t r = 0; r < p.m; r += kRows)
    tile_of<Tile, Codes, kRows>(p, r, p.m - r < kRows ? p.m - r : kRows);
}

}  // namespace
}  // namespace quaver::kernels
