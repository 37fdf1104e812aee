// Conversion of 4-, 6- and 8-bit floats by their widths: one arithmetic for all formats that have a header of
// their own.
#pragma once

#include <bit>
#include <cstdint>

namespace quaver {

// A sign, `kExponentBits` with `kBias`, `kMantissaBits`, subnormals; which codes are special is the format's
// business. The magnitude is the code without its sign. Everything is exact but the one rounding in `round`.
template <int kExponentBits, int kMantissaBits, int kBias>
struct SmallFloat {
  static constexpr int kMagnitudeBits = kExponentBits + kMantissaBits;
  static constexpr uint32_t kSignBit = 1u << kMagnitudeBits;
  static constexpr uint32_t kMagnitudeMask = kSignBit - 1u;

  static constexpr float magnitude_to_float(uint32_t magnitude) {
    uint32_t exponent = magnitude >> kMantissaBits;
    uint32_t mantissa = magnitude & ((1u << kMantissaBits) - 1u);
    if (exponent == 0)
      return static_cast<float>(mantissa) * std::bit_cast<float>((127u + kSubnormalExponent) << 23);
    return std::bit_cast<float>((exponent + 127u - kBias) << 23 | mantissa << (23 - kMantissaBits));
  }

  // Nearest magnitude, ties to the even code, unbounded above: the caller compares with its largest code.
  // Precondition: `value` is not negative and below 2^120.
  static constexpr uint32_t round(float value) {
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
    constexpr int kShift = 23 - kMantissaBits;
    uint32_t bits = std::bit_cast<uint32_t>(value);
    if (bits >= kSmallestNormal) {
      bits += (1u << (kShift - 1)) - 1u + (bits >> kShift & 1u);
      return (bits >> kShift) - (static_cast<uint32_t>(127 - kBias) << kMantissaBits);
    }
    // Adding a number whose last bit weighs as much as the smallest subnormal lets the addition itself round.
    constexpr float kMagic = std::bit_cast<float>(static_cast<uint32_t>(127 + kSubnormalExponent + 23) << 23);
    return std::bit_cast<uint32_t>(value + kMagic) - std::bit_cast<uint32_t>(kMagic);
  }

  // Rounds, and cuts at the largest finite magnitude. Sign kept, also of zero. NaN becomes the largest
  // magnitude.
  static constexpr uint8_t saturate(float value, uint32_t largest) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    uint32_t sign = bits >> 31 ? kSignBit : 0u;
    float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
    uint32_t code = magnitude < magnitude_to_float(largest) ? round(magnitude) : largest;
    return static_cast<uint8_t>(sign | code);
  }

 private:
  static constexpr int kSubnormalExponent = 1 - kBias - kMantissaBits;  // log2 of the smallest subnormal
};

}  // namespace quaver
