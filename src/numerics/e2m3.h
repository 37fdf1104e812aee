// e2m3, a 6-bit float of MXFP6: up to +-7.5 in steps of at least 0.125, no NaN, no infinity.
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.2.
#pragma once

#include "numerics/small_float.h"

namespace quaver {

using E2M3 = SmallFloat<2, 3, 1>;
inline constexpr float kE2M3Max = 7.5f;

// The low six bits of `code`; 32 is -0.
constexpr float e2m3_to_float(uint8_t code) {
  float magnitude = E2M3::magnitude_to_float(code & 31u);
  return code & 32u ? -magnitude : magnitude;
}

// Nearest, ties to even, cut at +-7.5. Precondition: not NaN.
constexpr uint8_t float_to_e2m3(float value) { return E2M3::saturate(value, 31); }

}  // namespace quaver
