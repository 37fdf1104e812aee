// The choice under a budget equals that of trying everything.
#include "quantize/bit_allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace quaver::quantize {
namespace {

using Parts = std::vector<std::vector<BitOption>>;

struct Sum {
  double bits = 0, loss = 0;
};

Sum sum_of(const Parts& parts, const std::vector<size_t>& chosen) {
  Sum sum;
  for (size_t i = 0; i < parts.size(); ++i)
    sum.bits += parts[i][chosen[i]].bits, sum.loss += parts[i][chosen[i]].loss;
  return sum;
}

double least_loss(const Parts& parts, double budget) {
  std::vector<size_t> chosen(parts.size());
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    const Sum sum = sum_of(parts, chosen);
    if (sum.bits <= budget) least = std::min(least, sum.loss);
    size_t part = 0;
    while (part < parts.size() && ++chosen[part] == parts[part].size()) chosen[part++] = 0;
    if (part == parts.size()) return least;
  }
}

Parts random_parts(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(0.1, 10);
  Parts parts(count);
  for (auto& options : parts)
    for (int option = 0; option < 3; ++option) options.push_back({uniform(random), uniform(random)});
  return parts;
}

TEST(BitAllocation, FindsTheLeastLoss) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const Parts parts = random_parts(7, random);
    double fewest = 0;
    for (const auto& options : parts) fewest += std::ranges::min_element(options, {}, &BitOption::bits)->bits;
    const double budget = fewest + 0.5 * round;
    const Sum sum = sum_of(parts, allocate_bits(parts, budget));
    EXPECT_LE(sum.bits, budget * (1 + 1e-12));
    EXPECT_NEAR(sum.loss, least_loss(parts, budget), 1e-9) << round;
  }
}

// Too many sums to keep: below the budget still, and near the bound that fractions of options would reach.
TEST(BitAllocation, LongListsStayBelowTheBudget) {
  Parts parts;
  std::mt19937 random(5);
  std::exponential_distribution<double> exponential(1);
  double bound = 0;
  for (int i = 0; i < 400; ++i) {
    const double loss = exponential(random);
    parts.push_back({{2, loss}, {4, 0}});
    bound += loss;
  }
  std::vector<double> losses;
  for (const auto& part : parts) losses.push_back(part[0].loss);
  std::ranges::sort(losses, std::greater());
  for (int i = 0; i < 100; ++i)
    bound -= losses[static_cast<size_t>(i)];  // a quarter of the parts gets 4 bits
  const Sum sum = sum_of(parts, allocate_bits(parts, 400 * 2.5));
  EXPECT_LE(sum.bits, 1000);
  EXPECT_NEAR(sum.loss, bound, 1e-9);
}

}  // namespace
}  // namespace quaver::quantize
