// Every code of every small float against golden tables, and rounding at, just below and just above each
// midpoint.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "numerics/e2m1.h"
#include "numerics/e2m3.h"
#include "numerics/e3m2.h"
#include "numerics/e4m3fn.h"
#include "numerics/e4m3fnuz.h"
#include "numerics/e5m2.h"
#include "numerics/e5m3.h"
#include "numerics/e8m0.h"

namespace quaver {
namespace {

struct Golden {
  std::vector<float> values;  // by code
  std::vector<float> inputs;
  std::vector<uint8_t> codes;  // of the inputs
};

Golden load_golden(const std::string& name) {
  std::ifstream file(std::string(QUAVER_TEST_DATA) + "/golden/numerics/" + name + ".bin", std::ios::binary);
  auto read_into = [&](auto& vector, uint32_t count) {
    vector.resize(count);
    file.read(reinterpret_cast<char*>(vector.data()),
              static_cast<std::streamsize>(count * sizeof(vector[0])));
  };
  auto read_count = [&] {
    uint32_t count = 0;
    file.read(reinterpret_cast<char*>(&count), sizeof count);
    return count;
  };
  Golden golden;
  read_into(golden.values, read_count());
  uint32_t inputs = read_count();
  read_into(golden.inputs, inputs);
  read_into(golden.codes, inputs);
  EXPECT_TRUE(file.good()) << name;
  return golden;
}

struct Codec {
  const char* name;
  float (*decode)(uint8_t);
  uint8_t (*encode)(float);
  float largest;
};
void PrintTo(const Codec& codec, std::ostream* out) { *out << codec.name; }

constexpr Codec kCodecs[] = {
    {"e2m1", e2m1_to_float, float_to_e2m1, kE2M1Max},
    {"e2m3", e2m3_to_float, float_to_e2m3, kE2M3Max},
    {"e3m2", e3m2_to_float, float_to_e3m2, kE3M2Max},
    {"e4m3fn", e4m3fn_to_float, float_to_e4m3fn, kE4M3FNMax},
    {"e4m3fnuz", e4m3fnuz_to_float, float_to_e4m3fnuz, kE4M3FNUZMax},
    {"e5m2", e5m2_to_float, float_to_e5m2, kE5M2Max},
};

class SmallFloats : public ::testing::TestWithParam<Codec> {};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST_P(SmallFloats, EveryCodeDecodesLikeTheReference) {
  Golden golden = load_golden(GetParam().name);
  for (size_t code = 0; code < golden.values.size(); ++code)
    EXPECT_TRUE(same(GetParam().decode(static_cast<uint8_t>(code)), golden.values[code])) << code;
}

TEST_P(SmallFloats, RoundsLikeTheReference) {
  Golden golden = load_golden(GetParam().name);
  ASSERT_GT(golden.inputs.size(), 1000u);
  for (size_t i = 0; i < golden.inputs.size(); ++i)
    EXPECT_EQ(GetParam().encode(golden.inputs[i]), golden.codes[i]) << golden.inputs[i];
}

TEST_P(SmallFloats, EveryCodeSurvivesTheRoundTrip) {
  Golden golden = load_golden(GetParam().name);
  for (size_t code = 0; code < golden.values.size(); ++code) {
    if (std::isnan(golden.values[code])) continue;
    EXPECT_EQ(GetParam().encode(golden.values[code]), code);
  }
}

TEST_P(SmallFloats, CutsAtTheLargestValue) {
  for (float value : {GetParam().largest * 1.0001f, GetParam().largest * 2, 1e38f}) {
    EXPECT_EQ(GetParam().decode(GetParam().encode(value)), GetParam().largest) << value;
    EXPECT_EQ(GetParam().decode(GetParam().encode(-value)), -GetParam().largest) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, SmallFloats, ::testing::ValuesIn(kCodecs),
                         [](const auto& row) { return std::string(row.param.name); });

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// No reference library knows this type: values by its definition, rounding by looking at every value.
TEST(E5M3, EveryCodeIsItsDefinition) {
  for (int code = 0; code < 255; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    const double value =
        exponent == 0 ? std::ldexp(mantissa / 8.0, -14) : std::ldexp(1 + mantissa / 8.0, exponent - 15);
    EXPECT_EQ(e5m3_to_float(static_cast<uint8_t>(code)), value) << code;
    EXPECT_EQ(float_to_e5m3(static_cast<float>(value)), code);
  }
  EXPECT_TRUE(std::isnan(e5m3_to_float(255)));
}

TEST(E5M3, RoundsToTheNearestAndCuts) {
  for (int code = 0; code < 254; ++code) {
    const float low = e5m3_to_float(static_cast<uint8_t>(code)),
                high = e5m3_to_float(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e5m3(middle), code + (code & 1)) << code;
    EXPECT_EQ(float_to_e5m3(std::nextafter(middle, low)), code);
    EXPECT_EQ(float_to_e5m3(std::nextafter(middle, high)), code + 1);
  }
  EXPECT_EQ(float_to_e5m3(kInfinity), 254);
  EXPECT_EQ(float_to_e5m3(-1.0f), 0);
  EXPECT_EQ(float_to_e5m3(kNan), 255);
}

TEST(SmallFloatSpecials, NanAndInfinity) {
  EXPECT_TRUE(std::isnan(e4m3fn_to_float(float_to_e4m3fn(kNan))));
  EXPECT_TRUE(std::isnan(e4m3fnuz_to_float(float_to_e4m3fnuz(kNan))));
  EXPECT_TRUE(std::isnan(e5m2_to_float(float_to_e5m2(-kNan))));
  EXPECT_EQ(e5m2_to_float(float_to_e5m2(-kInfinity)), -kInfinity);
  EXPECT_EQ(e4m3fn_to_float(float_to_e4m3fn(kInfinity)), 448.0f);
  EXPECT_EQ(e2m1_to_float(float_to_e2m1(-kInfinity)), -6.0f);
}

TEST(SmallFloatSpecials, ZeroHasNoSignInFnuz) {
  EXPECT_EQ(float_to_e4m3fnuz(-0.0f), 0);
  EXPECT_EQ(float_to_e4m3fnuz(-1e-9f), 0);
  EXPECT_EQ(float_to_e4m3fn(-0.0f), 0x80);
}

TEST(SmallFloatSpecials, CodecsWorkAtCompileTime) {
  static_assert(float_to_e2m1(2.5f) == 4 && e2m1_to_float(13) == -3.0f);
  static_assert(float_to_e4m3fn(449.0f) == 0x7e && e8m0_to_float(128) == 2.0f);
}

TEST(E8M0, EveryCodeDecodesLikeTheReference) {
  Golden golden = load_golden("e8m0");
  ASSERT_EQ(golden.values.size(), 256u);
  for (size_t code = 0; code < 256; ++code)
    EXPECT_TRUE(same(e8m0_to_float(static_cast<uint8_t>(code)), golden.values[code])) << code;
}

TEST(E8M0, FloorAndCeilBracketEveryFloat) {
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 65521) {
    float value = std::bit_cast<float>(bits);
    float floor = e8m0_to_float(float_to_e8m0_floor(value)), ceil = e8m0_to_float(float_to_e8m0_ceil(value));
    EXPECT_TRUE(floor <= value || floor == 0x1p-127f) << value;
    EXPECT_TRUE(value < 2 * floor || floor == 0x1p127f) << value;
    EXPECT_TRUE(ceil >= value || ceil == 0x1p127f) << value;
    EXPECT_TRUE(ceil < 2 * value || ceil == 0x1p-127f) << value;
  }
}

TEST(E8M0, PowersOfTwoAreExact) {
  for (int code = 0; code < 255; ++code) {
    float value = e8m0_to_float(static_cast<uint8_t>(code));
    EXPECT_EQ(float_to_e8m0_floor(value), code);
    EXPECT_EQ(float_to_e8m0_ceil(value), code);
  }
}

TEST(E8M0, WhatIsNoScaleIsNan) {
  for (float value : {kNan, kInfinity, -1.0f}) {
    EXPECT_EQ(float_to_e8m0_floor(value), 0xff);
    EXPECT_EQ(float_to_e8m0_ceil(value), 0xff);
  }
  EXPECT_EQ(float_to_e8m0_floor(0.0f), 0);
}

}  // namespace
}  // namespace quaver
