// e5m2, the 8-bit float with the range of half precision: up to +-57344, with infinities and NaNs.
// Source: OCP 8-bit Floating Point Specification (OFP8) 1.0.
#pragma once

#include "numerics/half.h"
#include "numerics/small_float.h"

namespace quaver {

using E5M2 = SmallFloat<5, 2, 15>;
inline constexpr float kE5M2Max = 57344.0f;

// The upper byte of an IEEE half.
constexpr float e5m2_to_float(uint8_t code) { return f16_to_float(static_cast<uint16_t>(code << 8)); }

// Nearest, ties to even; finite values that are larger become +-57344. Infinity and NaN stay what they are.
constexpr uint8_t float_to_e5m2(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 31 << 7;
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if ((bits & 0x7fffffffu) == 0x7f800000u) return static_cast<uint8_t>(sign | 0x7cu);
  return E5M2::saturate(value, 0x7b);
}

}  // namespace quaver
