// Decodes the scales or minima of one block in registers; compiled by *_panel_*.cc.
#pragma once

#include "kernels/linear/panels.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

constexpr int kPanelRows = 2 * kLanes;

struct RowPair {
  Vec of[2];  // one number for each row of the panel
};

template <class Load>
QUAVER_INLINE RowPair both_vectors(int bytes, const uint8_t* at, const Load& load_lanes) {
  return {{load_lanes(at), load_lanes(at + kLanes * bytes)}};
}

QUAVER_INLINE RowPair first_level(ScaleCodec codec, const uint8_t* at) {
  switch (codec) {
    case ScaleCodec::kF32:
      return both_vectors(4, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA {
        return load(reinterpret_cast<const float*>(p));
      });
    case ScaleCodec::kF16:
      return both_vectors(2, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA {
        return load_f16(reinterpret_cast<const uint16_t*>(p));
      });
    case ScaleCodec::kBF16:
      return both_vectors(2, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA {
        return load_bf16(reinterpret_cast<const uint16_t*>(p));
      });
    case ScaleCodec::kE4M3FN:
      return both_vectors(1, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA {
        return mul(small_floats<7>(load_bytes(p)), splat(0x1p8f));
      });
    case ScaleCodec::kE5M3:  // beyond a half; the few subnormals are subnormal floats, slow but right
      return both_vectors(1, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA {
        return mul(as_float(shift_left<20>(widen_u8(p))), splat(0x1p112f));
      });
    case ScaleCodec::kE8M0:  // code 0 is 2^-127, a subnormal
      return both_vectors(1, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA {
        return as_float(max_int(shift_left<23>(widen_u8(p)), splat_int(0x400000)));
      });
    case ScaleCodec::kI8:
      return both_vectors(1, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA { return to_float(widen_i8(p)); });
    default:
      return both_vectors(1, at, [](const uint8_t* p) QUAVER_INLINE_LAMBDA { return to_float(widen_u8(p)); });
  }
}

// `at` is where the block's entries begin. Each number equals decode_scales of quant_weight.h bit for bit.
QUAVER_INLINE RowPair load_scales(const PanelScales& scales, int64_t block, const uint8_t* at) {
  RowPair s = first_level(scales.codec, at);
  if (scales.super == nullptr) return s;
  const float* super = scales.super + scales.super_of[block] * kPanelRows;
  for (int c = 0; c < 2; ++c) {
    Vec above = load(super + c * kLanes);
    s.of[c] = scales.divides ? div(s.of[c], above) : mul(s.of[c], above);
  }
  return s;
}

}  // namespace
}  // namespace quaver::kernels
