// Greedy choice, masks, penalties, filters, seeds and log-probabilities of the sampler.
#include "llm/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace quaver::llm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(uint32_t seed, size_t size = 100) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

int32_t pick_once(const SamplingParams& params, const std::vector<float>& logits,
                  std::vector<int32_t> prompt = {}, std::vector<int32_t> end_tokens = {}, uint64_t seed = 0) {
  Sampler sampler({&params, prompt, end_tokens, seed});
  return sampler.pick(logits).token;
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  EXPECT_EQ(pick_once(greedy(), {1, 5, 2, 5, 5}), 1);
  EXPECT_EQ(pick_once(greedy(), {-kInf, -kInf, -3, -kInf}), 2);
}

TEST(Sampler, F042_LogitsThatAreNotFiniteEndTheRequest) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
    std::vector<float> logits = random_logits(1);
    logits[70] = bad;
    try {
      pick_once(greedy(), logits);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    }
  }
  EXPECT_THROW(pick_once(greedy(), std::vector<float>(10, -kInf)), Error);
}

TEST(Sampler, AllowedTokensAndBias) {
  SamplingParams params = greedy();
  params.allowed_token_ids = {3, 1};
  EXPECT_EQ(pick_once(params, {9, 1, 8, 2}), 3);
  params = greedy();
  params.logit_bias = {{1, 8.5f}, {0, -100.0f}};
  EXPECT_EQ(pick_once(params, {9, 0, 8, 2}), 1);
}

TEST(Sampler, MinTokensHidesEveryEnd) {
  SamplingParams params = greedy();
  params.min_tokens = 2;
  params.stop_token_ids = {1};
  std::vector<int32_t> ends = {0};
  Sampler sampler({&params, {}, ends, 0});
  std::vector<float> logits = {9, 8, 7};
  EXPECT_EQ(sampler.pick(logits).token, 2);
  EXPECT_EQ(sampler.pick(logits).token, 2);
  EXPECT_EQ(sampler.pick(logits).token, 0);
}

TEST(Sampler, NothingAllowedIsAnError) {
  SamplingParams params = greedy();
  params.min_tokens = 1;
  params.allowed_token_ids = {0};
  EXPECT_THROW(pick_once(params, {1, 2}, {}, {0}), Error);
}

TEST(Sampler, RepetitionCountsPromptAndOutputTheOthersOutputOnly) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2;
  EXPECT_EQ(pick_once(params, {4, 3, 1}, {0}), 1);       // 4 / 2 < 3
  EXPECT_EQ(pick_once(params, {-1, -1.5, -9}, {0}), 1);  // -1 * 2 < -1.5
  params = greedy();
  params.frequency_penalty = 0.6f;
  std::vector<int32_t> prompt = {0};
  Sampler frequency({&params, prompt, {}, 0});
  std::vector<float> logits = {4, 3, 1};
  EXPECT_EQ(frequency.pick(logits).token, 0);
  EXPECT_EQ(frequency.pick(logits).token, 0);  // 3.4
  EXPECT_EQ(frequency.pick(logits).token, 1);  // 2.8
  params = greedy();
  params.presence_penalty = 0.6f;
  Sampler presence({&params, prompt, {}, 0});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(presence.pick(logits).token, 0);
}

TEST(Sampler, PresenceDoesNotCountThePrompt) {
  SamplingParams params = greedy();
  params.repetition_penalty = 1.01f;
  params.presence_penalty = 2;
  EXPECT_EQ(pick_once(params, {4, 3, 1}, {0}), 0);
}

TEST(Sampler, ExtremePenaltiesStayFinite) {
  SamplingParams params = greedy();
  params.repetition_penalty = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(pick_once(params, {1, 2, 3}, {0}), 0);
  params.repetition_penalty = std::numeric_limits<float>::max();
  EXPECT_EQ(pick_once(params, {-1, -2, -3}, {0}), 1);
}

TEST(Sampler, FiltersLeaveOnlyTheLikely) {
  std::vector<float> logits = {0, 1, 2, 3};  // shares .032 .087 .237 .644
  auto seen = [&](const SamplingParams& params) {
    std::map<int32_t, int> counts;
    for (uint64_t seed = 0; seed < 2000; ++seed) ++counts[pick_once(params, logits, {}, {}, seed)];
    return counts;
  };
  SamplingParams params;
  EXPECT_EQ(seen(params).size(), 4u);
  params.top_k = 2;
  EXPECT_EQ(seen(params).size(), 2u);
  params = {};
  params.top_p = 0.65f;
  EXPECT_EQ(seen(params).size(), 2u);
  params = {};
  params.min_p = 0.2f;
  EXPECT_EQ(seen(params).size(), 2u);
  params = {};
  params.top_k = 1;
  EXPECT_EQ(seen(params), (std::map<int32_t, int>{{3, 2000}}));
}

TEST(Sampler, FrequenciesFollowTheTemperature) {
  std::vector<float> logits = {0, 1, 2, 3};
  SamplingParams params;
  params.temperature = 0.7f;
  constexpr int kDraws = 40000;
  std::map<int32_t, int> counts;
  for (uint64_t seed = 0; seed < kDraws; ++seed) ++counts[pick_once(params, logits, {}, {}, seed)];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit / 0.7);
  for (int32_t token = 0; token < 4; ++token) {
    double p = std::exp(logits[static_cast<size_t>(token)] / 0.7) / sum;
    EXPECT_NEAR(counts[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
  }
}

TEST(Sampler, TheSameSeedDrawsTheSame) {
  SamplingParams params;
  auto draw = [&](uint64_t seed) {
    Sampler sampler({&params, {}, {}, seed});
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < 50; ++i) tokens.push_back(sampler.pick(random_logits(i)).token);
    return tokens;
  };
  EXPECT_EQ(draw(5), draw(5));
  EXPECT_NE(draw(5), draw(6));
  Sampler flat({&params, {}, {}, 5});
  std::set<int32_t> seen;
  for (int i = 0; i < 50; ++i) seen.insert(flat.pick(std::vector<float>(100, 0.0f)).token);
  EXPECT_GT(seen.size(), 20u);  // each position draws anew
}

TEST(Sampler, LogprobsAreThoseOfTheRawLogits) {
  SamplingParams params = greedy();
  params.logprobs = 2;
  params.logit_bias = {{0, 50.0f}};
  params.repetition_penalty = 3;
  std::vector<int32_t> prompt = {3};
  Sampler sampler({&params, prompt, {}, 0});
  std::vector<float> logits = {0, 1, 2, 3};
  Sampler::Pick pick = sampler.pick(logits);
  ASSERT_EQ(pick.token, 0);
  ASSERT_EQ(pick.logprobs.size(), 3u);
  double sum = std::exp(0) + std::exp(1) + std::exp(2) + std::exp(3);
  EXPECT_NEAR(pick.logprobs[0].logprob, 0 - std::log(sum), 1e-6);
  EXPECT_EQ(pick.logprobs[0].rank, 4);
  EXPECT_EQ(pick.logprobs[1].token, 3);
  EXPECT_NEAR(pick.logprobs[1].logprob, 3 - std::log(sum), 1e-6);
  EXPECT_EQ(pick.logprobs[2].token, 2);
  EXPECT_EQ(pick.logprobs[2].rank, 2);
}

TEST(Sampler, LogprobsOfTheWholeVocabulary) {
  std::vector<float> logits = random_logits(3);
  PositionLogprobs all = position_logprobs(logits, 7, -1);
  ASSERT_EQ(all.size(), 101u);
  EXPECT_EQ(all[0].token, 7);
  double total = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    total += std::exp(all[i].logprob);
    EXPECT_EQ(all[i].rank, static_cast<int32_t>(i));
    if (i > 1) {
      EXPECT_LE(all[i].logprob, all[i - 1].logprob);
    }
    if (all[i].token == 7) {
      EXPECT_EQ(all[i].rank, all[0].rank);
    }
  }
  EXPECT_NEAR(total, 1, 1e-5);
  EXPECT_EQ(position_logprobs(logits, 7, 0).size(), 1u);
}

}  // namespace
}  // namespace quaver::llm
