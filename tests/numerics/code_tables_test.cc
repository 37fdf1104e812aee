// The codes that are tables: nf4 against the quantiles it stands for, iq4nl against its definition.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "numerics/dtype.h"
#include "numerics/fp4.h"
#include "numerics/iq4nl.h"
#include "numerics/nf4.h"

namespace quaver {
namespace {

// The normal distribution's quantile, by bisection.
double quantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 100; ++i) {
    double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
  }
  return low;
}

TEST(NF4, ValuesAreQuantilesOfTheNormalDistribution) {
  // Eight steps above zero, seven below, both starting at the same outer probability.
  constexpr double kOuter = 0.9677083;
  double largest = quantile(kOuter);
  for (int i = 0; i < 8; ++i) {
    double probability = kOuter - (kOuter - 0.5) * i / 8;
    EXPECT_NEAR(kNF4Values[static_cast<size_t>(15 - i)], quantile(probability) / largest, 2e-7) << i;
  }
  for (int i = 0; i < 7; ++i) {
    double probability = kOuter - (kOuter - 0.5) * i / 7;
    EXPECT_NEAR(kNF4Values[static_cast<size_t>(i)], -quantile(probability) / largest, 2e-7) << i;
  }
  EXPECT_EQ(kNF4Values[7], 0.0f);
}

TEST(NF4, EncodesToTheNearest) {
  for (uint8_t code = 0; code < 16; ++code) EXPECT_EQ(float_to_nf4(nf4_to_float(code)), code);
  for (int i = -1200; i <= 1200; ++i) {
    float value = static_cast<float>(i) / 1000;
    float distance = std::fabs(nf4_to_float(float_to_nf4(value)) - value);
    for (float other : kNF4Values) EXPECT_LE(distance, std::fabs(other - value) + 1e-7f) << value;
  }
}

TEST(FP4, ValuesAreTheLibrarys) {
  const double magnitudes[] = {0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_NEAR(fp4_to_float(code), magnitudes[code], 0x1p-24);  // half a unit of a float below 1
    EXPECT_EQ(fp4_to_float(code | 8), -fp4_to_float(code));
  }
}

TEST(IQ4NL, ValuesAscendAndAddUp) {
  for (size_t i = 1; i < 16; ++i) EXPECT_LT(kIQ4NLValues[i - 1], kIQ4NLValues[i]);
  EXPECT_EQ(std::accumulate(kIQ4NLValues.begin(), kIQ4NLValues.end(), 0), -94);
  EXPECT_EQ(iq4nl_to_float(0x10 | 15), 113.0f);
}

TEST(DType, NamesAreUnique) {
  for (const DTypeInfo& a : kDTypes)
    for (const DTypeInfo& b : kDTypes) {
      if (a.dtype == b.dtype) continue;
      EXPECT_NE(a.name, b.name);
      EXPECT_TRUE(a.safetensors_name.empty() || a.safetensors_name != b.safetensors_name) << a.name;
    }
  EXPECT_EQ(dtype_from_safetensors("BF16"), DType::kBF16);
  EXPECT_EQ(dtype_from_safetensors(""), std::nullopt);
}

}  // namespace
}  // namespace quaver
