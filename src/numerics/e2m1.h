// e2m1, the 4-bit float of MXFP4 and NVFP4: +-{0, 0.5, 1, 1.5, 2, 3, 4, 6}, no NaN, no infinity.
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3.
#pragma once

#include "numerics/small_float.h"

namespace quaver {

using E2M1 = SmallFloat<2, 1, 1>;
inline constexpr float kE2M1Max = 6.0f;

// The low four bits of `code`; 8 is -0.
constexpr float e2m1_to_float(uint8_t code) {
  float magnitude = E2M1::magnitude_to_float(code & 7u);
  return code & 8u ? -magnitude : magnitude;
}

// Nearest, ties to even, cut at +-6. Precondition: not NaN.
constexpr uint8_t float_to_e2m1(float value) { return E2M1::saturate(value, 7); }

}  // namespace quaver
