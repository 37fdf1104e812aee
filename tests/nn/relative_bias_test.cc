// Buckets of distances equal Transformers', and attention with a bias equals its definition.
#include "nn/relative_bias.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "checkpoint/safetensors_file.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {
namespace {

const std::string kBuckets = std::string(QUAVER_TEST_DATA) + "/golden/text_encoder/buckets.safetensors";
constexpr int64_t kReach = 1100;  // of make_text_encoders.py

TEST(RelativeBiasTest, BucketsEqualTransformers) {
  for (auto [buckets, far] : {std::pair<int64_t, int64_t>{32, 128}, {16, 24}, {8, 100}}) {
    const std::string name = cat(buckets, ".", far);
    at::Tensor want = tensor_over(SafetensorsFile::open(kBuckets).read(name), name);
    EXPECT_TRUE(relative_buckets(kReach + 1, buckets, far).equal(want)) << name;
  }
}

TEST(RelativeBiasTest, RowsOfQueriesSlideOverTheDistances) {
  constexpr int64_t kTokens = 9;
  at::Tensor table = at::randn({8, 3}), buckets = relative_buckets(kTokens, 8, 5);
  at::Tensor bias = RelativeBias(table, 5).forward(kTokens);
  ASSERT_EQ(bias.sizes(), (at::IntArrayRef{1, 3, kTokens, kTokens}));
  for (int64_t query = 0; query < kTokens; ++query)
    for (int64_t key = 0; key < kTokens; ++key) {
      const auto bucket = buckets[key - query + kTokens - 1].item<int64_t>();
      EXPECT_TRUE(bias[0].select(1, query).select(1, key).equal(table[bucket]));
    }
  EXPECT_EQ(RelativeBias(table, 5).forward(1).numel(), 3);
}

TEST(RelativeBiasTest, AttentionIsUnscaled) {
  at::Tensor q = at::randn({2, 9, 3, 16}), k = at::randn({2, 9, 3, 16}), v = at::randn({2, 9, 3, 16});
  at::Tensor bias = at::randn({1, 3, 9, 9});
  auto heads = [](const at::Tensor& x) { return x.transpose(1, 2).to(at::kDouble); };
  at::Tensor scores = at::matmul(heads(q), heads(k).transpose(-2, -1)) + bias.to(at::kDouble);
  at::Tensor want = at::matmul(at::softmax(scores, -1), heads(v)).transpose(1, 2);
  // Scores near 16 lose 16 * 2^-24 each before the exponential, and the sums of 16 products add to it.
  const double error = (biased_attention(q, k, v, bias).to(at::kDouble) - want).abs().max().item<double>();
  EXPECT_LE(error, 64 * 16 * 0x1p-24 * want.abs().max().item<double>());
}

}  // namespace
}  // namespace quaver::nn
