// e4m3fn, the 8-bit float of weights and activations: up to +-448, NaN is 0x7f and 0xff, no infinity.
// Source: OCP 8-bit Floating Point Specification (OFP8) 1.0.
#pragma once

#include <limits>

#include "numerics/small_float.h"

namespace quaver {

using E4M3FN = SmallFloat<4, 3, 7>;
inline constexpr float kE4M3FNMax = 448.0f;

constexpr float e4m3fn_to_float(uint8_t code) {
  uint32_t magnitude = code & 0x7fu;
  float value =
      magnitude == 0x7f ? std::numeric_limits<float>::quiet_NaN() : E4M3FN::magnitude_to_float(magnitude);
  return code & 0x80u ? -value : value;
}

// Nearest, ties to even; what is larger, infinities included, becomes +-448, where a plain cast in other
// libraries gives NaN. NaN stays NaN.
constexpr uint8_t float_to_e4m3fn(float value) {
  if (value != value) return static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 31 << 7 | 0x7fu);
  return E4M3FN::saturate(value, 0x7e);
}

}  // namespace quaver
