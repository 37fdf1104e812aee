// Plain rounding: bit for bit what the original tool makes of the same layers, and what it must refuse.
#include "quantize/rtn.h"

#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "rtn_golden.h"

namespace quaver::quantize {
namespace {

TEST(Rtn, EqualsTheToolBitForBit) {
  const RtnGolden golden;
  const std::vector<float> weight = golden.floats("weight");
  const auto cases = golden.cases("rtn");
  ASSERT_EQ(cases.size(), 38u);
  for (const RtnCase& which : cases) expect_packed_equal(golden, which, rtn(weight, which.problem));
}

TEST(Rtn, ThreadsDoNotChangeTheResult) {
  const RtnGolden golden;
  const std::vector<float> weight = golden.floats("weight");
  ThreadPool pool(3);
  RoundingProblem problem{.out = 32, .in = 288, .sym = false};
  const QuantWeight alone = rtn(weight, problem);
  problem.pool = &pool;
  const QuantWeight together = rtn(weight, problem);
  EXPECT_TRUE(std::ranges::equal(alone.codes.bytes(), together.codes.bytes()));
  EXPECT_TRUE(std::ranges::equal(alone.scale.data.bytes(), together.scale.data.bytes()));
}

// The larger extreme takes code 0, so the scale is negative where the positive one is larger or both are
// equal.
TEST(Rtn, SymmetricScaleHasTheSignOfTheLargerExtreme) {
  const std::vector<float> weight = {-1, 0, 0.5f, 0, 1, 0, -0.5f, 0, 1, -1, 0, 0};
  const QuantWeight w = rtn(weight, {.out = 3, .in = 4, .group = 4});
  EXPECT_EQ(decode_scales(w.scale), (std::vector<float>{0.125f, -0.125f, -0.125f}));
  const std::vector<float> values = dequantize(w);
  EXPECT_EQ(values[0], -1.0f);
  EXPECT_EQ(values[4], 1.0f);
  EXPECT_EQ(values[8], 1.0f);
  EXPECT_EQ(values[9], -0.875f);
}

TEST(Rtn, ZeroGroupsStayZeroWithAFiniteScale) {
  const std::vector<float> weight(256, 0.0f);
  for (const bool sym : {true, false}) {
    const QuantWeight w = rtn(weight, {.out = 2, .in = 128, .sym = sym});
    validate(w, "zero");
    EXPECT_GT(decode_scales(w.scale)[0], 0.0f);
    for (const float value : dequantize(w)) EXPECT_EQ(value, 0.0f);
  }
}

TEST(Rtn, ShortLastGroupHasAScaleOfItsOwn) {
  std::vector<float> weight(192, 1.0f);
  std::fill(weight.begin() + 128, weight.end(), -0.25f);
  const QuantWeight w = rtn(weight, {.out = 1, .in = 192, .group = 128});
  EXPECT_EQ(decode_scales(w.scale), (std::vector<float>{-0.125f, 0.03125f}));
}

TEST(Rtn, GroupWiderThanTheRowIsTheRow) {
  const std::vector<float> weight(64, 1.0f);
  EXPECT_EQ(rtn(weight, {.out = 1, .in = 64, .group = 128}).group, (Extent2d{1, 64}));
}

TEST(Rtn, ZeroPointsStartAtOneWhereTheFormatSubtractsOne) {
  const std::vector<float> weight = {0, 7, 14, 3, -1, 7, 14, 3};
  const QuantWeight plain = rtn(weight, {.out = 2, .in = 4, .group = 4, .sym = false});
  const QuantWeight raised =
      rtn(weight, {.out = 2, .in = 4, .group = 4, .sym = false, .zero_from_one = true});
  EXPECT_EQ(std::get<IntegerZeros>(plain.offset).data.as<uint8_t>()[0], 0);
  const auto zeros = std::get<IntegerZeros>(raised.offset).data.as<uint8_t>();
  EXPECT_EQ(zeros[0], 1);
  EXPECT_EQ(zeros[1], std::get<IntegerZeros>(plain.offset).data.as<uint8_t>()[1]);
  EXPECT_EQ(dequantize(raised)[2], 14.0f);  // the largest value is still reached
}

TEST(Rtn, NonFiniteWeightsAreNamed) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> weight(256, 0.5f);
    weight[128 + 3] = bad;
    try {
      rtn(weight, {.out = 2, .in = 128, .what = "layer 'x'"});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kNonFinite);
      EXPECT_STREQ(e.what(), "layer 'x': the value at row 1, column 3 is not finite");
    }
  }
}

TEST(Rtn, ScalesBeyondHalfPrecisionAreRefused) {
  std::vector<float> weight(128, 0.5f);
  weight[5] = 1e6f;
  EXPECT_THROW(rtn(weight, {.out = 1, .in = 128, .bits = 2}), Error);
}

TEST(Rtn, WrongSizesAreRefused) {
  const std::vector<float> weight(100, 0.5f);
  EXPECT_THROW(rtn(weight, {.out = 1, .in = 128}), Error);
  EXPECT_THROW(rtn(weight, {.out = 1, .in = 100, .bits = 9}), Error);
  EXPECT_THROW(rtn(weight, {.out = 1, .in = 100, .group = 0}), Error);
}

TEST(Rounding, MagicNumberRoundsTiesToEven) {
  for (float value = -40.0f; value <= 40.0f; value += 0.25f)
    EXPECT_EQ(round_to_int(value), std::nearbyint(value));
}

TEST(Rounding, Bf16RoundingEqualsTheCodec) {
  for (uint32_t bits = 0x00000000u; bits < 0x7f000000u; bits += 0x1235u) {
    const float value = std::bit_cast<float>(bits);
    EXPECT_EQ(round_to_bf16(value), bf16_to_float(float_to_bf16(value)));
    EXPECT_EQ(round_to_bf16(-value), bf16_to_float(float_to_bf16(-value)));
  }
}

}  // namespace
}  // namespace quaver::quantize
