// Models whose weights wait in host memory give the bits of models that stay. bfloat16, so that tensors are
// multiplied, not kernels' layouts; the device is the CPU.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "models/dit/dit.h"
#include "models/golden_model.h"
#include "models/text_encoder/text_encoder.h"
#include "models/vae/image_vae.h"

namespace quaver::models {
namespace {

const std::string kOffloadGolden = std::string(QUAVER_TEST_DATA) + "/golden/";
constexpr at::ScalarType kOffloadDtype = at::kBFloat16;
constexpr const char* kVaeName = "kl_tiled";

nn::LoadOptions stays() { return {.compute_dtype = kOffloadDtype}; }
nn::LoadOptions waits() { return {.compute_dtype = kOffloadDtype, .offload = true}; }

class OffloadTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Checkpoint> open(const char* folder) const {
    return open_hugging_face_folder(kOffloadGolden + folder + GetParam());
  }
  at::Tensor expected(const char* folder, const char* name) const {
    return read_tensor(kOffloadGolden + folder + GetParam() + ".safetensors", name);
  }
  c10::InferenceMode no_gradients_;
};

class OffloadedDit : public OffloadTest {};
class OffloadedText : public OffloadTest {};

TEST_P(OffloadedDit, GivesTheSameBitsStepAfterStep) {
  const std::unique_ptr<Checkpoint> files = open("diffusion/");
  nn::WeightSource first(*files, stays()), second(*files, waits());
  const std::unique_ptr<Dit> model = load_dit(first), offloaded = load_dit(second);
  DitInput input{.latents = expected("diffusion/", "latents"),
                 .text = expected("diffusion/", "text"),
                 .sigma = expected("diffusion/", "sigma"),
                 .rope = model->rope(expected("diffusion/", "text").size(1), 3, 5)};
  if (model->info().pooled_width > 0) input.pooled = expected("diffusion/", "pooled");
  if (model->info().takes_guidance) input.guidance = expected("diffusion/", "guidance");
  for (const NamedLinear& layer : offloaded->block(0).linears())
    EXPECT_TRUE(layer.linear->dense_weight().is_meta()) << layer.name;
  const at::Tensor want = model->forward(input);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(offloaded->forward(input).equal(want)) << step;
  // As step caches go: blocks one by one, and what they watch.
  const DitContext context = model->context(input);
  const DitState state = model->embed(input);
  for (int64_t i = 0; i < model->info().num_blocks; ++i) {
    const at::Tensor watched = model->block(i).modulated_input(state, context);
    EXPECT_TRUE(offloaded->block(i).modulated_input(state, context).equal(watched)) << i;
  }
  EXPECT_TRUE(
      offloaded->block(0).forward(state, context).image.equal(model->block(0).forward(state, context).image));
}

TEST_P(OffloadedText, GivesTheSameBitsAndGivesItsSlotsBack) {
  const std::unique_ptr<Checkpoint> files = open("text_encoder/");
  nn::WeightSource first(*files, stays()), second(*files, waits());
  const std::unique_ptr<TextEncoder> model = load_text_encoder(first), offloaded = load_text_encoder(second);
  const at::Tensor ids = expected("text_encoder/", "ids");
  const TextRows want = model->forward(ids);
  for (int pass = 0; pass < 2; ++pass) {
    const TextRows got = offloaded->forward(ids);
    EXPECT_TRUE(got.rows.equal(want.rows));
    if (want.pooled.defined()) {
      EXPECT_TRUE(got.pooled.equal(want.pooled));
    }
    for (int64_t i = 0; i < model->info().num_blocks; ++i)
      for (const NamedLinear& layer : offloaded->block(i).linears())
        EXPECT_TRUE(layer.linear->dense_weight().is_meta()) << i << layer.name;
  }
}

TEST(OffloadedVae, GivesTheSameBitsBothWays) {
  const std::string folder = kOffloadGolden + "models/vae/";
  const std::unique_ptr<Checkpoint> files = present_image_vae(open_hugging_face_folder(folder + kVaeName));
  nn::WeightSource first(*files, stays()), second(*files, waits());
  const std::unique_ptr<ImageVae> model = load_image_vae(first), offloaded = load_image_vae(second);
  const at::Tensor pixels = read_tensor(folder + kVaeName + ".safetensors", "pixels");
  const at::Tensor latents = model->encode(pixels).mean;
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_TRUE(offloaded->encode(pixels).mean.equal(latents));
    EXPECT_TRUE(offloaded->decode(latents).equal(model->decode(latents)));
    EXPECT_TRUE(offloaded->decode(latents, {.tile = true}).equal(model->decode(latents, {.tile = true})));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, OffloadedDit, testing::Values("flux_guided", "ovis_image"),
                         [](const auto& row) { return std::string(row.param); });
INSTANTIATE_TEST_SUITE_P(Families, OffloadedText, testing::Values("clip", "t5", "qwen3"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace quaver::models
