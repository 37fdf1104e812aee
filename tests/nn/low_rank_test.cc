// Updates of low rank beside plain and quantized weights: what they add, whose they are, when they run.
#include "nn/low_rank.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "nn/kernel_path.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

constexpr int64_t kUpdatedOut = 24, kUpdatedIn = 64, kUpdateRank = 4;

Linear::LowRank update(int64_t adapter, uint64_t seed, int64_t rank = kUpdateRank) {
  return {.adapter = adapter,
          .down = randn({rank, kUpdatedIn}, seed),
          .up = randn({kUpdatedOut, rank}, seed + 1)};
}

at::Tensor product(const Linear::LowRank& update) {  // float64 [out, in]
  return at::matmul(update.up.to(at::kDouble), update.down.to(at::kDouble));
}

// x (W + sum of updates)^T in float64.
at::Tensor merged(const Linear& layer, const at::Tensor& x, const at::Tensor& added) {
  return at::matmul(x.to(at::kDouble), (layer.dense_weight().to(at::kDouble) + added).t());
}

Linear four_bits(uint64_t seed) {
  auto weight = std::make_shared<QuantWeight>(
      random_quant_weight(kUpdatedOut, kUpdatedIn, {.bits = 4, .group = 32}, seed));
  Linear layer = Linear::quantized(weight, std::nullopt, at::kFloat, at::kCPU);
  layer.set_exact_activations(true);
  return layer;
}

TEST(LowRank, AddsToPlainAndQuantizedWeightsOnBothBodies) {
  const at::Tensor x = randn({5, kUpdatedIn}, 1);
  const Linear::LowRank first = update(0, 10), second = update(1, 20, 7);
  for (bool quantized : {false, true}) {
    Linear layer =
        quantized ? four_bits(3) : Linear::plain(randn({kUpdatedOut, kUpdatedIn}, 2), std::nullopt);
    layer.set_low_rank({first, second});
    ASSERT_NE(layer.kernel_name(), "aten");
    const at::Tensor want = merged(layer, x, 0.5 * product(first) - 2 * product(second));
    const LowRankScope scope({0.5, -2});
    EXPECT_TRUE(near(layer.forward(x), want, 4 * kUpdatedIn)) << "kernel, quantized " << quantized;
    const AtenOnly reference;
    EXPECT_TRUE(near(layer.forward(x), want, 4 * kUpdatedIn)) << "ATen, quantized " << quantized;
  }
}

TEST(LowRank, AGroupGivesWhatItsLayersGive) {
  const at::Tensor x = randn({5, kUpdatedIn}, 1);
  Linear a = Linear::plain(randn({kUpdatedOut, kUpdatedIn}, 2), std::nullopt),
         b = Linear::plain(randn({kUpdatedOut, kUpdatedIn}, 3), {});
  b.set_low_rank({update(0, 10)});
  const LowRankScope scope({1});
  const std::vector<at::Tensor> together = LinearGroup({&a, &b}).forward(x);
  EXPECT_TRUE(together[0].equal(a.forward(x)));
  EXPECT_TRUE(together[1].equal(b.forward(x)));
}

TEST(LowRank, AGroupOfQuantizedInputsGivesTheUpdateTheInputAsItCame) {
  const at::Tensor x = randn({5, kUpdatedIn}, 1);
  Linear layer = Linear::plain(randn({kUpdatedOut, kUpdatedIn}, 2), std::nullopt);
  layer.set_input_quant(InputQuant({.mode = ActivationQuant::Mode::kDynamic, .group = -1}, {}, at::kCPU));
  const at::Tensor alone = layer.forward(x);
  const Linear::LowRank added = update(0, 10);
  layer.set_low_rank({added});
  const LowRankScope scope({1});
  const at::Tensor want = alone.to(at::kDouble) + at::matmul(x.to(at::kDouble), product(added).t());
  EXPECT_TRUE(near(layer.forward(x), want, 4 * kUpdatedIn));
  EXPECT_TRUE(near(LinearGroup({&layer}).forward(x)[0], want, 4 * kUpdatedIn));
}

TEST(LowRank, RunsInAScopeOfItsOwnThreadAlone) {
  const at::Tensor x = randn({5, kUpdatedIn}, 1);
  Linear layer = Linear::plain(randn({kUpdatedOut, kUpdatedIn}, 2), std::nullopt);
  const at::Tensor without = layer.forward(x);
  layer.set_low_rank({update(1, 10)});
  EXPECT_TRUE(layer.forward(x).equal(without)) << "outside of a scope";
  const LowRankScope scope({0, 1});
  EXPECT_FALSE(layer.forward(x).equal(without));
  {
    const LowRankScope none({1});  // says nothing of adapter 1
    EXPECT_TRUE(layer.forward(x).equal(without)) << "an inner scope";
  }
  {
    const LowRankScope zero({0, 0});
    EXPECT_TRUE(layer.forward(x).equal(without)) << "scale 0";
  }
  std::thread([&] { EXPECT_TRUE(layer.forward(x).equal(without)) << "another thread"; }).join();
  EXPECT_FALSE(layer.forward(x).equal(without)) << "the inner scope is over";
}

TEST(LowRank, ShapesThatDoNotFitAreRefused) {
  Linear layer = Linear::plain(randn({kUpdatedOut, kUpdatedIn}, 2), std::nullopt);
  EXPECT_THROW(layer.set_low_rank({{0, randn({4, kUpdatedIn + 1}, 1), randn({kUpdatedOut, 4}, 2)}}), Error);
  EXPECT_THROW(layer.set_low_rank({{0, randn({4, kUpdatedIn}, 1), randn({kUpdatedOut, 5}, 2)}}), Error);
}

}  // namespace
}  // namespace quaver::nn
