// A GGUF in place of a pipeline's transformer computes what its dequantized weights do.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/remove_tree.h"
#include "checkpoint/diffusers_folder.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/gguf_quantize.h"
#include "checkpoint/gguf_writer.h"
#include "models/dit/dit.h"
#include "nn/memory_checkpoint.h"
#include "nn/tensor_bridge.h"

namespace quaver::models {
namespace {

namespace fs = std::filesystem;

const std::string kShapesPipeline = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";

// Blocks of 256 where rows are made of whole ones, else of 32; plain numbers for what is no matrix.
DType fitting(DType wanted, const at::Tensor& weight) {
  if (weight.dim() != 2) return DType::kF32;
  return wanted == DType::kQ4_K && weight.size(1) % 256 != 0 ? DType::kQ8_0 : wanted;
}

// Channel 7 behind the norms before the attentions of two blocks is shifted to 3e4. What reads it has small
// weights there, as if trained to.
void add_outlier(const std::string& name, at::Tensor& weight) {
  constexpr double kOutlier = 3e4, kSmall = 2e-3;
  constexpr int64_t kChannel = 7;
  if (name == "transformer_blocks.0.norm1.linear.bias" ||
      name == "single_transformer_blocks.1.norm.linear.bias")
    weight[kChannel] = kOutlier;  // shifts come first
  for (const char* layer :
       {"transformer_blocks.0.attn.to_q", "transformer_blocks.0.attn.to_k", "transformer_blocks.0.attn.to_v",
        "single_transformer_blocks.1.attn.to_q", "single_transformer_blocks.1.attn.to_k",
        "single_transformer_blocks.1.attn.to_v", "single_transformer_blocks.1.proj_mlp"})
    if (name == cat(layer, ".weight")) weight.select(1, kChannel).mul_(kSmall);
}

class GgufTransformerTest : public testing::TestWithParam<DType> {
 protected:
  GgufTransformerTest() : folder_(fs::temp_directory_path() / fs::path(cat("quaver-gguf-dit-", ::getpid()))) {
    fs::create_directories(folder_);
  }
  ~GgufTransformerTest() override { remove_tree(folder_); }

  // The shapes model in blocks, as a file, and in the values that these stand for.
  void make(bool with_outlier) {
    const auto source = DiffusersFolder::open(kShapesPipeline).component("transformer");
    plain_.edit_config() = source->config();
    std::vector<TensorInfo> infos;
    std::map<std::string, TensorView> blocks;
    for (const TensorInfo& info : source->tensors()) {
      at::Tensor weight = nn::tensor_over(source->read(info.name), info.name).to(at::kFloat).clone();
      if (with_outlier) add_outlier(info.name, weight);
      const DType dtype = fitting(GetParam(), weight);
      const std::span values(weight.const_data_ptr<float>(), static_cast<size_t>(weight.numel()));
      const TensorView view = {dtype, info.shape, gguf_quantize(dtype, values, info.name)};
      const std::vector<float> dequantized = gguf_dequantize(view);
      std::copy(dequantized.begin(), dequantized.end(), weight.mutable_data_ptr<float>());
      plain_.add(info.name, weight);
      infos.push_back({info.name, dtype, info.shape, view.data.size_bytes()});
      blocks[info.name] = view;
    }
    GgufMetadata metadata;
    metadata.add_string("general.architecture", "flux");
    write_gguf(folder_ / "t.gguf", metadata, infos,
               [&](const TensorInfo& info) { return blocks.at(info.name); });
    want_ = velocity(plain_, {});
  }

  static at::Tensor velocity(const Checkpoint& files, const nn::LoadOptions& options) {
    nn::WeightSource source(files, options);
    const std::unique_ptr<Dit> model = load_dit(source);
    const auto wave = [](int64_t rows, int64_t cols) {
      return (at::linspace(0, 300, rows * cols, at::kFloat).sin() * 1.4).view({1, rows, cols});
    };
    const DitInput input{.latents = wave(16, 64),
                         .text = wave(12, 128),
                         .pooled = wave(1, 128)[0],
                         .sigma = at::full({1}, 0.75, at::kFloat),
                         .guidance = at::full({1}, 3.5, at::kFloat),
                         .rope = model->rope(12, 4, 4)};
    const at::Tensor out = model->forward(input).to(at::kFloat);
    EXPECT_GT(out.std().item<float>(), 0.1);
    return out;
  }

  double error(const nn::LoadOptions& options) const {
    DiffusersFolder pipeline = DiffusersFolder::open(kShapesPipeline);
    pipeline.use_file("transformer", folder_ / "t.gguf");
    return ((velocity(*open_dit(pipeline), options) - want_).norm() / want_.norm()).item<double>();
  }

  const fs::path folder_;
  nn::MemoryCheckpoint plain_;
  at::Tensor want_;
  c10::InferenceMode no_gradients_;
};

TEST_P(GgufTransformerTest, ComputesWhatItsDequantizedWeightsDo) {
  make(false);
  EXPECT_LE(error({.exact_activations = true}), 1e-5);
  EXPECT_LE(error({}), 0.05);  // kernels round activations to eight bits
}

TEST_P(GgufTransformerTest, F045_AnOutlierBehindANormOverflowsNothing) {
  make(true);
  EXPECT_LE(error({.exact_activations = true}), 1e-4);
  // In eight bits the channels that share a scale with it lose theirs, but nothing beyond.
  EXPECT_LE(error({}), 0.2);
  EXPECT_LE(error({.compute_dtype = at::kBFloat16}), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Blocks, GgufTransformerTest, testing::Values(DType::kQ8_0, DType::kQ4_K),
                         [](const auto& row) { return std::string(dtype_info(row.param).name); });

}  // namespace
}  // namespace quaver::models
