// Logit passes and sampling against straightforward double-precision versions, at every instruction-set
// level.
#include "kernels/sampling/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "kernels/support.h"

namespace quaver::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<std::vector<float>> rows() {
  std::vector<std::vector<float>> all;
  for (int64_t n : {1, 2, 15, 16, 17, 100, 5000, 49152}) {
    all.push_back(Random(static_cast<uint64_t>(n)).normals(n, 3.0f));
    std::vector<float> coarse = Random(9).normals(n);  // many ties
    for (float& v : coarse) v = std::round(v);
    all.push_back(coarse);
    std::vector<float> masked = all[all.size() - 2];  // most tokens forbidden
    for (size_t i = 0; i < masked.size(); ++i)
      if (i % 9 != 0) masked[i] = -kInf;
    all.push_back(masked);
  }
  all.push_back(std::vector<float>(300, -2.0f));
  return all;
}

std::vector<int32_t> in_order(const std::vector<float>& logits) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return order;
}

TEST(Sampling, ArgmaxTakesTheFirstOfEquals) {
  for (const auto& logits : rows())
    for (const CpuFeatures& cpu : cpu_levels())
      EXPECT_EQ(argmax(logits, cpu), std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST(Sampling, LogSumExpMatchesDoublePrecision) {
  for (const auto& logits : rows()) {
    double max = *std::max_element(logits.begin(), logits.end()), sum = 0;
    for (float v : logits) sum += std::exp(v - max);
    for (const CpuFeatures& cpu : cpu_levels()) {
      LogSumExp result = log_sum_exp(logits, cpu);
      EXPECT_EQ(result.max, static_cast<float>(max));
      EXPECT_NEAR(result.log_sum, std::log(sum), 512 * 6e-8);
      EXPECT_NEAR(result.log_probability(logits[0]), logits[0] - max - std::log(sum),
                  512 * 6e-8 + 6e-8 * std::abs(logits[0] == -kInf ? 0 : logits[0] - max));
    }
  }
}

TEST(Sampling, TopTokensAndRanksAgreeWithAStableSort) {
  for (const auto& logits : rows()) {
    std::vector<int32_t> order = in_order(logits);
    for (const CpuFeatures& cpu : cpu_levels())
      for (int32_t count : {0, 1, 5, 20, 1000}) {
        std::vector<int32_t> top = top_tokens(logits, count, cpu);
        ASSERT_EQ(top.size(), std::min(static_cast<size_t>(count), order.size()));
        EXPECT_TRUE(std::equal(top.begin(), top.end(), order.begin()))
            << to_string(cpu) << " count " << count;
        for (size_t i = 0; i < top.size(); i += 7)
          EXPECT_EQ(rank_of(logits, top[i], cpu), static_cast<int32_t>(i + 1));
      }
  }
}

TEST(Sampling, CheckLogitsSeesEveryPlace) {
  for (const CpuFeatures& cpu : cpu_levels())
    for (size_t n : {1, 16, 31, 100}) {
      std::vector<float> logits(n, -kInf);
      EXPECT_FALSE(check_logits(logits, cpu));
      for (size_t i = 0; i < n; ++i) {
        logits.assign(n, -1.0f);
        EXPECT_TRUE(check_logits(logits, cpu));
        logits[i] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_FALSE(check_logits(logits, cpu));
        logits[i] = kInf;
        EXPECT_FALSE(check_logits(logits, cpu));
        logits.assign(n, -kInf);
        logits[i] = -3e38f;
        EXPECT_TRUE(check_logits(logits, cpu));
      }
    }
}

// The kept tokens and their weights by the definition in sampling.h.
std::map<int32_t, double> kept_by_definition(const std::vector<float>& logits, const SampleFilter& filter) {
  std::vector<int32_t> order = in_order(logits);
  double max = logits[static_cast<size_t>(order[0])];
  auto weight = [&](int32_t t) {
    return std::exp((logits[static_cast<size_t>(t)] - max) / filter.temperature);
  };
  std::erase_if(order, [&](int32_t t) { return filter.min_p > 0 && weight(t) < filter.min_p; });
  if (filter.top_k > 0 && order.size() > static_cast<size_t>(filter.top_k))
    order.resize(static_cast<size_t>(filter.top_k));
  double total = 0, sum = 0;
  for (int32_t t : order) total += weight(t);
  std::map<int32_t, double> kept;
  for (int32_t t : order) {
    if (filter.top_p < 1 && !kept.empty() && sum >= filter.top_p * total) break;
    sum += weight(t);
    kept[t] = weight(t);
  }
  return kept;
}

TEST(Sampling, DrawsByTheDefinition) {
  const SampleFilter filters[] = {{},
                                  {.temperature = 0.7f, .top_k = 5},
                                  {.temperature = 1.5f, .top_p = 0.9f},
                                  {.min_p = 0.1f},
                                  {.min_p = 0.3f, .top_k = 50},
                                  {.temperature = 0.3f, .min_p = 0.01f, .top_k = 40, .top_p = 0.8f},
                                  {.temperature = 100.0f, .top_p = 0.5f},
                                  {.temperature = 0.01f, .top_k = 1000000},
                                  {.top_k = 1},
                                  {.top_p = 0.0f}};
  for (const auto& logits : rows())
    for (const SampleFilter& filter : filters) {
      std::map<int32_t, double> kept = kept_by_definition(logits, filter);
      double total = 0;
      for (auto [token, w] : kept) total += w;
      for (const CpuFeatures& cpu : cpu_levels())
        for (double uniform : {0.0, 0.1, 0.5, 0.77, 0.999, std::nextafter(1.0, 0.0)}) {
          int32_t got = sample(logits, filter, uniform, cpu);
          // Sums in another order move a boundary by their rounding: either neighbour is right there.
          double slack = 1e-5 * total, below = 0;
          ASSERT_TRUE(kept.contains(got) || logits.size() > 4000) << "token " << got << " was filtered out";
          ASSERT_NE(logits[static_cast<size_t>(got)], -kInf);
          for (auto [token, w] : kept)
            if (token < got) below += w;
          double own = kept.contains(got) ? kept[got] : 0;
          EXPECT_LE(below - slack, uniform * total) << to_string(cpu) << " uniform " << uniform;
          EXPECT_GE(below + own + slack, uniform * total) << to_string(cpu) << " uniform " << uniform;
        }
    }
}

TEST(Sampling, FollowsTheDistribution) {
  std::vector<float> logits = {std::log(0.5f), std::log(0.125f), -kInf, std::log(0.375f)};
  for (const CpuFeatures& cpu : cpu_levels()) {
    int counts[4] = {};
    for (int i = 0; i < 1000; ++i) ++counts[sample(logits, {}, (i + 0.5) / 1000, cpu)];
    EXPECT_EQ(counts[0], 500);
    EXPECT_EQ(counts[1], 125);
    EXPECT_EQ(counts[2], 0);
    EXPECT_EQ(counts[3], 375);
  }
}

}  // namespace
}  // namespace quaver::kernels
