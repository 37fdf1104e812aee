// The search for scales: bit for bit what the original tool finds for the same layers and importances.
#include "quantize/opt_rtn.h"

#include <limits>
#include <random>

#include "base/thread_pool.h"
#include "quantize/float_sum.h"
#include "quantize/rtn.h"
#include "rtn_golden.h"

namespace quaver::quantize {
namespace {

std::vector<float> importance_of(const RtnGolden& golden, const RtnCase& which) {
  return which.importance == "flat" ? std::vector<float>() : golden.floats("imatrix_" + which.importance);
}

TEST(OptRtn, EqualsTheToolBitForBit) {
  const RtnGolden golden;
  const std::vector<float> weight = golden.floats("weight");
  const auto cases = golden.cases("opt");
  ASSERT_EQ(cases.size(), 38u);
  for (const RtnCase& which : cases)
    expect_packed_equal(golden, which, opt_rtn(weight, importance_of(golden, which), which.problem));
}

TEST(OptRtn, ThreadsDoNotChangeTheResult) {
  const RtnGolden golden;
  const std::vector<float> weight = golden.floats("weight"), importance = golden.floats("imatrix_full");
  ThreadPool pool(3);
  RoundingProblem problem{.out = 32, .in = 288, .bits = 3};
  const QuantWeight alone = opt_rtn(weight, importance, problem);
  problem.pool = &pool;
  const QuantWeight together = opt_rtn(weight, importance, problem);
  EXPECT_TRUE(std::ranges::equal(alone.codes.bytes(), together.codes.bytes()));
  EXPECT_TRUE(std::ranges::equal(alone.scale.data.bytes(), together.scale.data.bytes()));
}

double weighted_error(const QuantWeight& w, const std::vector<float>& weight,
                      const std::vector<float>& importance) {
  const std::vector<float> values = dequantize(w);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = static_cast<double>(values[i]) - weight[i];
    sum += error * error * importance[i % importance.size()];
  }
  return sum;
}

// Weights in single precision take the same search without its bfloat16 roundings.
TEST(OptRtn, BeatsPlainRoundingInItsOwnMeasure) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> weight(64 * 256), importance(256);
  for (float& value : weight) value = normal(generator);
  for (float& value : importance) value = normal(generator) * normal(generator) + 1e-3f;
  for (float& value : importance) value = std::abs(value);
  for (const int bits : {2, 3, 4}) {
    const RoundingProblem problem{.out = 64, .in = 256, .bits = bits};
    EXPECT_LT(weighted_error(opt_rtn(weight, importance, problem), weight, importance),
              0.9 * weighted_error(rtn(weight, problem), weight, importance))
        << bits;
  }
}

TEST(OptRtn, BadImportanceIsRefused) {
  const std::vector<float> weight(256, 0.5f);
  const RoundingProblem problem{.out = 2, .in = 128};
  EXPECT_THROW(opt_rtn(weight, std::vector<float>(64, 1.0f), problem), Error);
  EXPECT_THROW(opt_rtn(weight, std::vector<float>(128, std::numeric_limits<float>::quiet_NaN()), problem),
               Error);
  EXPECT_THROW(opt_rtn(weight, std::vector<float>(128, -1.0f), problem), Error);
}

TEST(FloatSum, EqualsTheLibraryBitForBit) {
  const RtnGolden golden;
  const std::vector<float> values = golden.floats("sum_values"), sums = golden.floats("sums");
  const size_t lengths[] = {1, 7, 32, 64, 96, 100, 128, 288, 511, 512, 1000, 2048, 2100};
  ASSERT_EQ(std::size(lengths), sums.size());
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(cascaded_sum(values.data(), lengths[i]), sums[i]) << lengths[i];
}

TEST(FloatSum, AddsEveryValueOnce) {
  for (const size_t count : {0u, 1u, 15u, 16u, 17u, 63u, 64u, 65u, 128u, 288u, 1000u, 1024u, 4096u, 70000u}) {
    std::vector<float> values(count);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += values[i] = static_cast<float>(i % 97);
    EXPECT_EQ(cascaded_sum(values.data(), count), sum) << count;  // small integers: exact in any order
  }
}

}  // namespace
}  // namespace quaver::quantize
