// Exhaustive round trips of the 16-bit floats, and ties to even.
#include "numerics/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quaver {
namespace {

TEST(Half, EveryF16CodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 65536; ++code) {
    float value = f16_to_float(static_cast<uint16_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_f16(value), code);
    EXPECT_EQ(value, static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(code))));
  }
}

TEST(Half, EveryBf16CodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 65536; ++code) {
    float value = bf16_to_float(static_cast<uint16_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_bf16(value), code);
  }
}

TEST(Half, F16RoundsLikeTheCompiler) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 4099) {
    float value = std::bit_cast<float>(bits);
    EXPECT_EQ(float_to_f16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

TEST(Half, Bf16TiesGoToEven) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
}

TEST(Half, NanStaysNan) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(nan))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(nan))));
}

}  // namespace
}  // namespace quaver
