// e3m2, a 6-bit float of MXFP6: up to +-28, smallest 0.0625, no NaN, no infinity.
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.2.
#pragma once

#include "numerics/small_float.h"

namespace quaver {

using E3M2 = SmallFloat<3, 2, 3>;
inline constexpr float kE3M2Max = 28.0f;

// The low six bits of `code`; 32 is -0.
constexpr float e3m2_to_float(uint8_t code) {
  float magnitude = E3M2::magnitude_to_float(code & 31u);
  return code & 32u ? -magnitude : magnitude;
}

// Nearest, ties to even, cut at +-28. Precondition: not NaN.
constexpr uint8_t float_to_e3m2(float value) { return E3M2::saturate(value, 31); }

}  // namespace quaver
