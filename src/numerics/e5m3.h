// e5m3, an unsigned 8-bit float that scales groups of 4-bit floats: up to 114688, smallest 2^-17, NaN is
// 0xff, no sign, no infinity. Source: the layout of e5m2 with the sign's bit given to the mantissa (bias 15).
#pragma once

#include <limits>

#include "numerics/small_float.h"

namespace quaver {

using E5M3 = SmallFloat<5, 3, 15>;
inline constexpr float kE5M3Max = 114688.0f;

constexpr float e5m3_to_float(uint8_t code) {
  return code == 0xffu ? std::numeric_limits<float>::quiet_NaN() : E5M3::magnitude_to_float(code);
}

// Nearest, ties to even, cut at 114688; negative values become 0. NaN stays NaN.
constexpr uint8_t float_to_e5m3(float value) {
  if (value != value) return 0xffu;
  if (value <= 0.0f) return 0;
  return value < kE5M3Max ? static_cast<uint8_t>(E5M3::round(value)) : uint8_t{0xfe};
}

}  // namespace quaver
