// Integer codes against float activations.
#pragma once

#include "kernels/linear/panel_a32_body.h"

namespace quaver::kernels {
namespace {

template <int Bits>
struct IntegerCodes {
  static constexpr int kStepBytes = kPanelRows * Bits;
  static constexpr int kRows = kLanes == 16 ? 11 : 4;  // room for the codes beside the accumulators
  using Step = kernels::Step;
  VecI zero_point[2];

  QUAVER_INLINE explicit IntegerCodes(const CodePanel&) {}
  QUAVER_INLINE void enter(const CodePanel& p, int64_t block) {
    zero_point[0] = zero_points(p, block, 0);
    zero_point[1] = zero_points(p, block, 1);
  }
  static QUAVER_INLINE Step load(const uint8_t* codes) { return load_step<Bits>(codes); }
  template <int Channel, int C>
  QUAVER_INLINE Vec value(const Step& step) const {
    VecI bytes = Channel < 4 ? step.first[C] : step.second[C];
    VecI code = and_int(shift_right<8 * (Channel % 4)>(bytes), splat_int(0xff));
    return to_float(sub_int(code, zero_point[C]));
  }
  static QUAVER_INLINE Vec whole(Vec sum) { return sum; }
};

QUAVER_INLINE void integer_a32_panel(const CodePanel& p) {
  if (p.bits == 2) return a32_panel<IntegerCodes<2>>(p);
  if (p.bits == 4) return a32_panel<IntegerCodes<4>>(p);
  a32_panel<IntegerCodes<8>>(p);
}

}  // namespace
}  // namespace quaver::kernels
