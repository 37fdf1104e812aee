// Mixture of experts against a token-by-token reference.
#include "nn/moe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <tuple>

#include "nn/grouped_experts.h"
#include "nn/kernel_path.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

constexpr int64_t kHidden = 16, kInner = 24, kExperts = 6;

Mlp random_mlp(uint64_t seed) {
  auto layer = [&](int64_t out, int64_t in, uint64_t offset) {
    return Linear::plain(randn({out, in}, seed * 10 + offset) * 0.3, std::nullopt);
  };
  return {Activation::kSilu, layer(kInner, kHidden, 0), layer(kInner, kHidden, 1), layer(kHidden, kInner, 2)};
}

Moe random_moe(const MoeConfig& config, const at::Tensor& router) {
  std::vector<Mlp> experts;
  for (int64_t e = 0; e < kExperts; ++e) experts.push_back(random_mlp(static_cast<uint64_t>(e)));
  return {config, Linear::plain(router, std::nullopt), std::move(experts)};
}

// Weights as tuning sets them, and the leaves that gradients reach.
struct Tuned {
  Moe moe;
  std::vector<at::Tensor> weights;
};

Tuned tuned_moe(const MoeConfig& config, const at::Tensor& router, at::ScalarType dtype, bool biased) {
  std::vector<Mlp> experts;
  std::vector<at::Tensor> weights;
  for (uint64_t e = 0; e < kExperts; ++e) {
    auto layer = [&](int64_t out, int64_t in, uint64_t seed) {
      weights.push_back((randn({out, in}, 50 * e + seed) * 0.3).to(dtype).requires_grad_());
      std::optional<at::Tensor> bias;
      if (biased) bias = randn({out}, 50 * e + seed + 10).to(dtype);
      Linear linear = Linear::plain(at::zeros_like(weights.back()), bias);
      linear.set_dense_weight(weights.back());
      return linear;
    };
    Linear gate = layer(kInner, kHidden, 0), up = layer(kInner, kHidden, 1), down = layer(kHidden, kInner, 2);
    experts.emplace_back(Activation::kSilu, std::move(gate), std::move(up), std::move(down));
  }
  return {Moe(config, Linear::plain(router, std::nullopt), std::move(experts)), std::move(weights)};
}

TEST(Route, TakesTheBestAndNormalizes) {
  at::Tensor logits = at::tensor({0.0f, 2.0f, -1.0f, 1.0f}).unsqueeze(0);
  Routing raw = route(logits, {.num_experts = 4, .experts_per_token = 2, .normalize = false});
  EXPECT_EQ(raw.experts[0][0].item<int64_t>(), 1);
  EXPECT_EQ(raw.experts[0][1].item<int64_t>(), 3);
  double total = std::exp(0.0) + std::exp(2.0) + std::exp(-1.0) + std::exp(1.0);
  EXPECT_NEAR(raw.weights[0][0].item<double>(), std::exp(2.0) / total, 1e-6);
  Routing shares = route(logits, {.num_experts = 4, .experts_per_token = 2, .normalize = true});
  EXPECT_NEAR(shares.weights[0][1].item<double>(), std::exp(1.0) / (std::exp(1.0) + std::exp(2.0)), 1e-6);
  EXPECT_EQ(route(logits.to(at::kBFloat16), {4, 2, true}).weights.scalar_type(), at::kBFloat16);
}

// Two groups of three: the first holds the best expert, the second the best pair.
TEST(Route, ScoredGroupsAreJudgedByTheirBest) {
  at::Tensor logits = at::tensor({3.0f, -4.0f, -4.0f, 1.0f, 2.0f, -4.0f}).unsqueeze(0);
  MoeConfig config{.num_experts = 6, .experts_per_token = 2, .scored = ScoredRouting{}};
  config.scored->groups = 2, config.scored->judged_by = 1;
  EXPECT_EQ(route(logits, config).experts[0][0].item<int64_t>(), 0);
  config.scored->scores = ScoredRouting::Scores::kSigmoid, config.scored->judged_by = 2;
  Routing pair = route(logits, config);
  EXPECT_EQ(pair.experts[0][0].item<int64_t>(), 4);
  EXPECT_EQ(pair.experts[0][1].item<int64_t>(), 3);
  EXPECT_NEAR(pair.weights[0][1].item<double>(), 1 / (1 + std::exp(-1.0)), 1e-7);
}

TEST(Route, ChoiceBiasLeavesWeightsAlone) {
  at::Tensor logits = at::tensor({2.0f, 1.0f, 0.0f}).unsqueeze(0);
  MoeConfig config{.num_experts = 3, .experts_per_token = 1, .scored = ScoredRouting{}};
  config.scored->scores = ScoredRouting::Scores::kSigmoid;
  config.scored->choice_bias = at::tensor({0.0f, 0.0f, 5.0f});
  config.scored->weight_scale = 3;
  Routing routing = route(logits, config);
  EXPECT_EQ(routing.experts[0][0].item<int64_t>(), 2);
  EXPECT_NEAR(routing.weights[0][0].item<double>(), 1.5, 1e-7);
  config.normalize = true;
  EXPECT_NEAR(route(logits, config).weights[0][0].item<double>(), 3, 1e-6);
}

// No token chooses the last expert; it sees those that it suits best and changes none.
TEST(Moe, CalibrationShowsRareExpertsTheirBestTokens) {
  MoeConfig config{.num_experts = kExperts, .experts_per_token = 2, .normalize = true};
  at::Tensor router = randn({kExperts, kHidden}, 3);
  at::Tensor x = randn({40, kHidden}, 4);
  x.select(1, 0).fill_(1);
  router[kExperts - 1][0] = -100;
  Moe moe = random_moe(config, router);
  at::Tensor seen, want = moe.forward(x);
  const auto chosen = route(at::linear(x, router), config).experts;
  auto count = [&](int64_t expert) { return chosen.eq(expert).sum().item<int64_t>(); };
  ASSERT_EQ(count(kExperts - 1), 0);
  ExpertCalibration calibration{.least_tokens = 5};
  moe.experts().back().gate().set_input_observer([&](const at::Tensor& rows) {
    EXPECT_TRUE(calibration.showing);
    seen = rows.clone();
  });
  EXPECT_TRUE(moe.forward(x, &calibration).equal(want));
  EXPECT_TRUE(moe.forward(x, &calibration).equal(want));
  for (int64_t e = 0; e < kExperts; ++e)
    EXPECT_EQ(calibration.routed.at(static_cast<size_t>(e)), 2 * count(e));
  EXPECT_FALSE(calibration.showing);
  const at::Tensor best = std::get<1>(at::topk(at::linear(x, router).select(1, kExperts - 1), 5));
  EXPECT_TRUE(seen.equal(x.index_select(0, best)));
}

TEST(Moe, ScoredTokensDoNotDependOnNeighbours) {
  MoeConfig config{.num_experts = kExperts, .experts_per_token = 3, .normalize = true};
  config.scored = ScoredRouting{};
  config.scored->scores = ScoredRouting::Scores::kSigmoid;
  config.scored->groups = 3, config.scored->groups_kept = 2, config.scored->judged_by = 2;
  Moe moe = random_moe(config, randn({kExperts, kHidden}, 96));
  at::Tensor x = randn({23, kHidden}, 7), all = moe.forward(x);
  for (int64_t t = 0; t < 23; ++t)
    EXPECT_TRUE(all.narrow(0, t, 1).equal(moe.forward(x.narrow(0, t, 1)))) << t;
}

TEST(Moe, MatchesTokenByToken) {
  MoeConfig config{.num_experts = kExperts, .experts_per_token = 2, .normalize = true};
  at::Tensor router = randn({kExperts, kHidden}, 99), x = randn({11, kHidden}, 5);
  Moe moe = random_moe(config, router);
  Routing routing = route(at::linear(x, router), config);
  at::Tensor want = at::zeros_like(x);
  for (int64_t t = 0; t < x.size(0); ++t)
    for (int64_t c = 0; c < 2; ++c) {
      const Mlp& expert = moe.experts()[static_cast<size_t>(routing.experts[t][c].item<int64_t>())];
      want[t] += (expert.forward(x.narrow(0, t, 1)) * routing.weights[t][c])[0];
    }
  EXPECT_TRUE(near(moe.forward(x), want, kInner)) << "kernels";
  AtenOnly reference;
  EXPECT_TRUE(near(moe.forward(x), want, kInner)) << "ATen";
}

// Float32: sums of kInner products, in another order. Bfloat16 rounds what comes out of each projection, and
// the weighted results: 2^-8 each, where near() has 8 of them.
TEST(Moe, GroupedExpertsEqualThoseInTurn) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const bool biased : {false, true}) {
      const double epsilon = dtype == at::kFloat ? 0x1p-24 : 0x1p-9;
      at::Tensor x = randn({37, kHidden}, 8).to(dtype), upstream = randn({37, kHidden}, 9).to(dtype);
      at::Tensor router = randn({kExperts, kHidden}, 95).to(dtype);
      x.select(1, 0).fill_(1), router[kExperts - 1][0] = -100;  // no token chooses the last expert
      MoeConfig config{.num_experts = kExperts, .experts_per_token = 3, .normalize = true};
      std::vector<std::vector<at::Tensor>> gradients;
      std::vector<at::Tensor> results;
      for (const bool grouped : {false, true}) {
        Tuned tuned = tuned_moe(config, router, dtype, biased);
        at::Tensor input = x.clone().requires_grad_();
        ASSERT_TRUE(can_group(tuned.moe.experts()));
        results.push_back(grouped ? tuned.moe.forward_grouped(input) : tuned.moe.forward(input));
        results.back().backward(upstream);
        gradients.push_back({input.grad()});
        for (const at::Tensor& weight : tuned.weights) gradients.back().push_back(weight.grad());
      }
      EXPECT_TRUE(near(results[1].to(at::kFloat), results[0].to(at::kFloat), kInner, epsilon));
      for (size_t i = 0; i < gradients[0].size(); ++i) {
        const at::Tensor &want = gradients[0][i], &got = gradients[1][i];
        EXPECT_EQ(want.defined(), i <= 3 * (kExperts - 1));
        EXPECT_TRUE(want.defined() ? near(got.to(at::kFloat), want.to(at::kFloat), kInner, epsilon)
                                   : testing::AssertionResult(got.eq(0).all().item<bool>()))
            << i;
      }
    }
}

// What is left to those in turn: sides that fill no 16 bytes, inputs quantized otherwise or all rows
// together.
TEST(Moe, WhatCantBeGrouped) {
  MoeConfig config{.num_experts = kExperts, .experts_per_token = 2};
  Moe moe = random_moe(config, randn({kExperts, kHidden}, 94));
  EXPECT_TRUE(can_group(moe.experts()));
  const ActivationQuant whole{.mode = ActivationQuant::Mode::kDynamic, .group = 0},
      rows{.mode = ActivationQuant::Mode::kDynamic, .group = -1};
  moe.experts()[1].up().set_input_quant({rows, {}, at::kCPU});
  EXPECT_FALSE(can_group(moe.experts())) << "one of them alone";
  for (Mlp& expert : moe.experts()) expert.up().set_input_quant({rows, {}, at::kCPU});
  EXPECT_TRUE(can_group(moe.experts()));
  for (Mlp& expert : moe.experts()) expert.up().set_input_quant({whole, {}, at::kCPU});
  EXPECT_FALSE(can_group(moe.experts())) << "all rows together";
  auto quant = std::make_shared<QuantWeight>(random_quant_weight(kHidden, kInner, {.group = 8}, 1));
  moe.experts()[0].down() = Linear::quantized(quant, std::nullopt, at::kFloat, at::kCPU);
  for (Mlp& expert : moe.experts()) expert.up().set_input_quant({});
  EXPECT_FALSE(can_group(moe.experts())) << "one that is quantized";
  moe.experts()[0].down().set_dense_weight(randn({kHidden, kInner}, 2));
  EXPECT_TRUE(can_group(moe.experts())) << "its weight under tuning";
  std::vector<Mlp> narrow;
  auto layer = [](int64_t out, int64_t in) { return Linear::plain(randn({out, in}, 1), std::nullopt); };
  narrow.emplace_back(Activation::kSilu, layer(12, kHidden), layer(12, kHidden), layer(kHidden, 12));
  EXPECT_FALSE(can_group(narrow));
}

TEST(Moe, TokensDoNotDependOnNeighbours) {
  MoeConfig config{.num_experts = kExperts, .experts_per_token = 3};
  Moe moe = random_moe(config, randn({kExperts, kHidden}, 98));
  at::Tensor x = randn({7, kHidden}, 6), all = moe.forward(x);
  for (int64_t t = 0; t < 7; ++t) EXPECT_TRUE(all.narrow(0, t, 1).equal(moe.forward(x.narrow(0, t, 1))));
}

TEST(Moe, GradientsReachExpertsAndInputs) {
  Moe moe =
      random_moe({.num_experts = kExperts, .experts_per_token = kExperts}, randn({kExperts, kHidden}, 97));
  at::Tensor weight = randn({kHidden, kInner}, 1).requires_grad_(),
             x = randn({3, kHidden}, 2).requires_grad_();
  moe.experts()[2].down().set_dense_weight(weight);
  moe.forward(x).sum().backward();
  EXPECT_GT(weight.grad().abs().max().item<float>(), 0);
  EXPECT_GT(x.grad().abs().min().item<float>(), 0);
}

}  // namespace
}  // namespace quaver::nn
