// e4m3fnuz, the 8-bit float of AMD CDNA 3: as e4m3fn with bias 8, up to +-240; no -0, whose code 0x80 is the
// one NaN. Source: Noune et al., "8-bit Numerical Formats for Deep Neural Networks", arXiv:2206.02915.
#pragma once

#include <limits>

#include "numerics/small_float.h"

namespace quaver {

using E4M3FNUZ = SmallFloat<4, 3, 8>;
inline constexpr float kE4M3FNUZMax = 240.0f;

constexpr float e4m3fnuz_to_float(uint8_t code) {
  if (code == 0x80u) return std::numeric_limits<float>::quiet_NaN();
  float magnitude = E4M3FNUZ::magnitude_to_float(code & 0x7fu);
  return code & 0x80u ? -magnitude : magnitude;
}

// Nearest, ties to even, cut at +-240; negative values that round to zero become +0. NaN stays NaN.
constexpr uint8_t float_to_e4m3fnuz(float value) {
  if (value != value) return 0x80u;
  uint8_t code = E4M3FNUZ::saturate(value, 0x7f);
  return code == 0x80u ? uint8_t{0} : code;
}

}  // namespace quaver
