// Attention over tokens that ranks divide equals that of one rank, for odd numbers of tokens and heads.
#include "nn/joint_attention.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <numeric>

#include "nn/support.h"
#include "nn/thread_ranks.h"

namespace quaver::nn {
namespace {

constexpr int64_t kJointBatch = 2, kJointHeadDim = 8;

struct TokenCase {
  std::vector<int64_t> tokens;  // of each rank
  int64_t heads;
};

// F123, and a rank without any token.
const std::vector<TokenCase> kTokenCases = {{{4, 4}, 2},    {{5, 4}, 3},       {{7, 2}, 5}, {{3, 3, 2}, 3},
                                            {{1, 9, 4}, 4}, {{2, 1, 1, 1}, 4}, {{3, 0}, 2}};

TEST(JointAttention, F123RanksThatDivideTokensAttendAsOne) {
  for (const auto& [tokens, heads] : kTokenCases) {
    const int64_t total = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
    const auto random = [&, heads = heads](uint64_t seed) {
      return randn({kJointBatch, total, heads, kJointHeadDim}, seed);
    };
    const at::Tensor q = random(1), k = random(2), v = random(3), want = joint_attention(q, k, v);
    run_on_ranks(static_cast<int64_t>(tokens.size()), [&, tokens = tokens](const RankGroup* group) {
      const auto own = tokens.begin() + group->rank();
      const int64_t first = std::accumulate(tokens.begin(), own, int64_t{0});
      const auto part = [&](const at::Tensor& x) { return x.narrow(1, first, *own); };
      const at::Tensor got = joint_attention(part(q), part(k), part(v), {group, tokens});
      ASSERT_EQ(got.sizes(), part(want).sizes());
      if (*own == 0) return;
      EXPECT_TRUE(near(got, part(want), static_cast<double>(total + kJointHeadDim)));
    });
  }
}

TEST(JointAttention, OneRankNeedsNoGroup) {
  const at::Tensor q = randn({1, 5, 2, 4}, 1), k = randn({1, 5, 2, 4}, 2), v = randn({1, 5, 2, 4}, 3);
  EXPECT_TRUE(joint_attention(q, k, v, {}).equal(joint_attention(q, k, v)));
}

}  // namespace
}  // namespace quaver::nn
