// Diffusion transformers agree with diffusers in float32, stream by stream, on both paths; and what they
// refuse.
#include "models/dit/dit.h"

#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "models/golden_model.h"
#include "nn/kernel_path.h"

namespace quaver::models {
namespace {

const std::string kDits = std::string(QUAVER_TEST_DATA) + "/golden/diffusion/";
constexpr int64_t kRows = 3, kCols = 5;  // of make_transformers.py
// Products in series per block: modulation, q, scores, mix, out, up, down; and norms.
constexpr double kSumsPerBlock = 9, kWidth = 192;

struct DitGolden {
  std::unique_ptr<Checkpoint> checkpoint;
  std::string expected;
  at::Tensor tensor(const std::string& name) const { return read_tensor(expected, name); }
};

DitGolden open_dit(const std::string& name) {
  return {open_hugging_face_folder(kDits + name), kDits + name + ".safetensors"};
}

DitInput input_of(const DitGolden& golden, const Dit& model) {
  DitInput input{.latents = golden.tensor("latents"),
                 .text = golden.tensor("text"),
                 .sigma = golden.tensor("sigma"),
                 .rope = model.rope(golden.tensor("text").size(1), kRows, kCols)};
  if (model.info().pooled_width > 0) input.pooled = golden.tensor("pooled");
  if (model.info().takes_guidance) input.guidance = golden.tensor("guidance");
  return input;
}

void expect_like_diffusers(const DitGolden& golden) {
  nn::WeightSource source(*golden.checkpoint, {});
  std::unique_ptr<Dit> model = load_dit(source);
  const DitInput input = input_of(golden, *model);
  const DitContext context = model->context(input);
  DitState state = model->embed(input);
  for (int64_t i = 0; i < model->info().num_blocks; ++i) {
    state = model->block(i).forward(state, context);
    const double depth = kSumsPerBlock * static_cast<double>(i + 1) + 3;
    EXPECT_LE(error_ratio(state.image, golden.tensor(cat("image.", i)), kEpsilonF32, depth, kWidth), 1) << i;
    EXPECT_LE(error_ratio(state.text, golden.tensor(cat("text.", i)), kEpsilonF32, depth, kWidth), 1) << i;
  }
  const double depth = kSumsPerBlock * static_cast<double>(model->info().num_blocks) + 5;
  EXPECT_LE(error_ratio(model->output(state, context), golden.tensor("velocity"), kEpsilonF32, depth, kWidth),
            1);
  EXPECT_TRUE(model->forward(input).equal(model->output(state, context)));
}

class DitTest : public testing::TestWithParam<const char*> {
  c10::InferenceMode no_gradients_;
};

TEST_P(DitTest, EqualsDiffusersWithKernels) { expect_like_diffusers(open_dit(GetParam())); }

TEST_P(DitTest, EqualsDiffusersWithoutKernels) {
  nn::AtenOnly aten;
  expect_like_diffusers(open_dit(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Families, DitTest, testing::Values("flux_guided", "flux_unguided", "ovis_image"),
                         [](const auto& row) { return std::string(row.param); });

TEST(DitFileTest, ListsTheLinearsOfEveryBlockUnderTheFilesNames) {
  DitGolden golden = open_dit("flux_guided");
  nn::WeightSource source(*golden.checkpoint, {});
  std::unique_ptr<Dit> model = load_dit(source);
  size_t listed = 0;
  for (int64_t i = 0; i < model->info().num_blocks; ++i)
    for (const NamedLinear& layer : model->block(i).linears()) {
      const TensorInfo* weight =
          golden.checkpoint->find(cat(model->block_name(i), ".", layer.name, ".weight"));
      ASSERT_NE(weight, nullptr) << layer.name;
      EXPECT_EQ(weight->shape,
                (std::vector<int64_t>{layer.linear->out_features(), layer.linear->in_features()}));
      ++listed;
    }
  size_t matrices = 0;
  for (const TensorInfo& tensor : golden.checkpoint->tensors())
    matrices += tensor.shape.size() == 2 && tensor.name.find("transformer_blocks.") != std::string::npos;
  EXPECT_EQ(listed, matrices);
}

std::string refusal_of(nn::MemoryCheckpoint& checkpoint) {
  try {
    nn::WeightSource source(checkpoint, {});
    load_dit(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "it loads";
}

void expect_refused(const char* key, const json& value, const std::string& part) {
  nn::MemoryCheckpoint copy;
  copy_checkpoint(*open_dit("flux_guided").checkpoint, copy);
  copy.edit_config()[key] = value;
  EXPECT_NE(refusal_of(copy).find(part), std::string::npos) << key << ": " << refusal_of(copy);
}

TEST(DitFileTest, RefusesWhatItDoesNotKnow) {
  expect_refused("_class_name", "SomethingElse", "expected one of: FluxTransformer2DModel");
  expect_refused("axes_dims_rope", {4, 4, 4}, "add up to attention_head_dim, 16");
  expect_refused("axes_dims_rope", {3, 5, 8}, "expected even numbers");
  expect_refused("patch_size", 2, "patch_size");
  expect_refused("out_channels", 32, "out_channels");
  expect_refused("num_layers", 3, "transformer_blocks.2");
}

}  // namespace
}  // namespace quaver::models
