// The value of one stored scale of any codec, as a number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numerics/e4m3fn.h"
#include "numerics/e5m3.h"
#include "numerics/e8m0.h"
#include "numerics/element.h"
#include "numerics/half.h"

namespace quaver {

// `stored` needs no alignment: mapped files promise none.
inline float scale_value(ScaleCodec codec, const std::byte* stored) {
  const auto byte = static_cast<uint8_t>(*stored);
  const auto half = [stored] {
    uint16_t bits;
    std::memcpy(&bits, stored, sizeof bits);
    return bits;
  };
  switch (codec) {
    case ScaleCodec::kF32: {
      float value;
      std::memcpy(&value, stored, sizeof value);
      return value;
    }
    case ScaleCodec::kF16:
      return f16_to_float(half());
    case ScaleCodec::kBF16:
      return bf16_to_float(half());
    case ScaleCodec::kE4M3FN:
      return e4m3fn_to_float(byte);
    case ScaleCodec::kE8M0:
      return e8m0_to_float(byte);
    case ScaleCodec::kE5M3:
      return e5m3_to_float(byte);
    case ScaleCodec::kI8:
      return static_cast<float>(std::bit_cast<int8_t>(byte));
    case ScaleCodec::kU6:
    case ScaleCodec::kU4:
      break;
  }
  return static_cast<float>(byte);
}

}  // namespace quaver
