// Updates of low rank on a GPU, beside plain weights and beside codes that stay codes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "nn/low_rank.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

TEST(LowRankCuda, AddsToPlainAndQuantizedWeights) {
  constexpr int64_t kWide = 576, kTall = 24, kFew = 16;
  const c10::InferenceMode no_gradients;
  const at::Device gpu(at::kCUDA, 0);
  const at::Tensor down = randn({kFew, kWide}, 1) / 24, up = randn({kTall, kFew}, 2);
  const auto weight = std::make_shared<QuantWeight>(random_quant_weight(kTall, kWide, {}, 7));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const bool quantized : {false, true})
      for (const int64_t rows : {1, 40}) {  // codes multiplied as they lie, and expanded
        const at::TensorOptions there = at::TensorOptions(dtype).device(gpu);
        Linear layer = quantized ? Linear::quantized(weight, std::nullopt, dtype, gpu)
                                 : Linear::plain((randn({kTall, kWide}, 3) / 24).to(there), std::nullopt);
        const at::Tensor x = randn({rows, kWide}, 4).to(there);
        const at::Tensor dense = layer.dense_weight().to(at::kDouble);
        const Linear::LowRank update{.adapter = 0, .down = down.to(there), .up = up.to(there)};
        layer.set_low_rank({update});
        const LowRankScope scope({0.5});
        const at::Tensor added = 0.5 * at::matmul(update.up.to(at::kDouble), update.down.to(at::kDouble));
        const at::Tensor want = at::matmul(x.to(at::kDouble), (dense + added).t());
        // In bfloat16 the product, the inner rows and the sum are rounded once each.
        const double epsilon = dtype == at::kFloat ? 0x1p-24 : 0x1p-8;
        EXPECT_TRUE(near(layer.forward(x), want, dtype == at::kFloat ? 4 * kWide : 1, epsilon))
            << c10::toString(dtype) << ", quantized " << quantized << ", rows " << rows;
      }
}

}  // namespace
}  // namespace quaver::nn
