// Float codes against float activations: 4-bit ones through a table in registers, wider ones as halves.
#pragma once

#include "kernels/linear/panel_a32_body.h"

namespace quaver::kernels {
namespace {

struct TableCodes {
  static constexpr int kStepBytes = kPanelRows * 4;
  static constexpr int kRows = kLanes == 16 ? 12 : 5;
  struct Step {
    VecI nibbles[2];
  };
  Table16 table;

  QUAVER_INLINE explicit TableCodes(const CodePanel& p) : table(load_table16(p.values)) {}
  QUAVER_INLINE void enter(const CodePanel&, int64_t) {}
  static QUAVER_INLINE Step load(const uint8_t* codes) {
    return {{load_int(codes), load_int(codes + kLanes * 4)}};
  }
  template <int Channel, int C>
  QUAVER_INLINE Vec value(const Step& step) const {
    return look_up(table, shift_right<Channel % 4 * 8 + Channel / 4 * 4>(step.nibbles[C]));
  }
  QUAVER_INLINE Vec whole(Vec sum) const { return sum; }
};

template <int Shift>
struct HalfCodes {
  static constexpr int kStepBytes = kPanelRows * 8;
  static constexpr int kRows = kLanes == 16 ? 12 : 6;
  struct Step {
    VecI pairs[4];  // of channels
  };
  float factor;

  QUAVER_INLINE explicit HalfCodes(const CodePanel& p) : factor(p.factor) {}
  QUAVER_INLINE void enter(const CodePanel&, int64_t) {}
  static QUAVER_INLINE Step load(const uint8_t* codes) {
    constexpr int kBytes = kPanelRows * 2;
    return {{load_int(codes), load_int(codes + kBytes), load_int(codes + 2 * kBytes),
             load_int(codes + 3 * kBytes)}};
  }
  template <int Channel, int C>
  QUAVER_INLINE Vec value(const Step& step) const {
    return half_vector<C>(halves_of<Shift, Channel % 2 == 1>(step.pairs[Channel / 2]));
  }
  QUAVER_INLINE Vec whole(Vec sum) const { return mul(sum, splat(factor)); }
};

QUAVER_INLINE void float_a32_panel(const CodePanel& p) {
  if (p.bits == 4) return a32_panel<TableCodes>(p);
  if (p.half_shift == 7) return a32_panel<HalfCodes<7>>(p);
  a32_panel<HalfCodes<8>>(p);
}

}  // namespace
}  // namespace quaver::kernels
