// e8m0, the power-of-two scale of the MX formats: 2^(code - 127), 0xff is NaN; no sign, no zero.
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.4.1.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace quaver {

// Code 0 is 2^-127, a subnormal float.
constexpr float e8m0_to_float(uint8_t code) {
  if (code == 0xffu) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// The largest power of two that is not above `value`, cut at 2^-127 below. NaN, infinity and negative values
// are NaN.
constexpr uint8_t float_to_e8m0_floor(float value) {
  if (!(value >= 0.0f) || value == std::numeric_limits<float>::infinity()) return 0xffu;
  return static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 23 & 0xffu);
}

// The smallest power of two that is not below `value`, cut at 2^127 above. NaN, infinity and negative values
// are NaN.
constexpr uint8_t float_to_e8m0_ceil(float value) {
  uint8_t floor = float_to_e8m0_floor(value);
  return floor < 0xfeu && e8m0_to_float(floor) < value ? static_cast<uint8_t>(floor + 1) : floor;
}

}  // namespace quaver
