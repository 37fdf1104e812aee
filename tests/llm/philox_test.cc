// Known answers of the Random123 distribution, and the shape of the uniforms.
#include "llm/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quaver::llm {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  constexpr uint32_t kOnes = 0xffffffffu;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformsAreWithinBoundsAndFlat) {
  constexpr int kDraws = 200000;
  double sum = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    double u = uniform_at(i % 7, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  // Five standard errors of the mean of a uniform.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
}

TEST(Philox, SeedsAndPositionsDiffer) {
  EXPECT_NE(uniform_at(1, 0), uniform_at(2, 0));
  EXPECT_NE(uniform_at(1, 0), uniform_at(1, 1));
  EXPECT_NE(uniform_at(1, 0), uniform_at(uint64_t{1} << 32, 0));
  EXPECT_EQ(uniform_at(42, 17), uniform_at(42, 17));
}

}  // namespace
}  // namespace quaver::llm
