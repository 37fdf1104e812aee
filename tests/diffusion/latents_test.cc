// Noise equals torch.randn's, packing is undone by unpacking, and the small formulas.
#include "diffusion/latents.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/json.h"
#include "diffusion/guidance.h"

namespace quaver::diffusion {
namespace {

TEST(LatentsTest, NoiseIsThatOfTorchWithTheSameSeed) {
  const json goldens = read_json_file(std::string(QUAVER_TEST_DATA) + "/golden/diffusion/schedules.json");
  for (const json& row : goldens.at("noise")) {
    const auto shape = row.at("shape").get<std::vector<int64_t>>();
    const at::Tensor noise = SeededNoise(row.at("seed").get<uint64_t>()).draw(shape).flatten();
    ASSERT_EQ(noise.numel(), static_cast<int64_t>(row.at("values").size()));
    for (int64_t i = 0; i < noise.numel(); ++i)
      EXPECT_EQ(noise[i].item<float>(), row.at("values")[static_cast<size_t>(i)].get<float>());
  }
}

TEST(LatentsTest, PacksSquaresByChannelRowAndColumn) {
  const at::Tensor latents = at::arange(2 * 3 * 4 * 6).view({2, 3, 4, 6});
  const at::Tensor tokens = pack(latents);
  EXPECT_EQ(tokens.sizes().vec(), (std::vector<int64_t>{2, 6, 12}));
  // Token 4 is the square at row 1, column 1; entry 4 + 2 is channel 1's lower left.
  EXPECT_EQ(tokens[1][4][6].item<int64_t>(), latents[1][1][3][2].item<int64_t>());
  EXPECT_TRUE(unpack(tokens, 2, 3).equal(latents));
}

TEST(LatentsTest, StepsFollowTheVelocity) {
  const at::Tensor x = at::full({2}, 3.0f), v = at::full({2}, -2.0f);
  EXPECT_TRUE(euler_step(x, v, 0.75, 0.25).equal(at::full({2}, 4.0f)));
  EXPECT_TRUE(noised(x, v, 0.25).equal(at::full({2}, 1.75f)));
}

TEST(GuidanceTest, PullsAwayFromTheNegativeBranch) {
  const at::Tensor positive = at::full({2}, 3.0f), negative = at::full({2}, 1.0f);
  EXPECT_TRUE(guided({.scale = 2.5}, positive, negative).equal(at::full({2}, 6.0f)));
  EXPECT_EQ(Guidance{.scale = 2.5}.branches(), 2);
  EXPECT_EQ(Guidance{.scale = 1.0}.branches(), 1);
  EXPECT_EQ(Guidance{.scale = 0.0}.branches(), 1);
}

}  // namespace
}  // namespace quaver::diffusion
