// A transformer that tensor ranks, sequence ranks or both compute gives the picture of one rank; ranks are
// threads.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

#include "models/dit/dit.h"
#include "models/golden_model.h"
#include "nn/thread_ranks.h"

namespace quaver::models {
namespace {

constexpr int64_t kPictures = 2, kParallelRows = 3, kParallelCols = 5;
at::Tensor seeded(const std::vector<int64_t>& shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed));
}

constexpr double kSumsOfBlock = 9, kSumWidth = 192;  // as in dit_test.cc

// One model and how it is loaded.
struct ParallelCase {
  const Checkpoint& checkpoint;
  nn::LoadOptions options;
  int64_t text_tokens = 7;
};

DitInput parallel_input(const Dit& model, int64_t text_tokens) {
  const DitInfo& info = model.info();
  DitInput input{.latents = seeded({kPictures, kParallelRows * kParallelCols, info.channels}, 1),
                 .text = seeded({kPictures, text_tokens, info.text_width}, 2),
                 .sigma = at::tensor({0.8125f, 0.25f}),
                 .rope = model.rope(text_tokens, kParallelRows, kParallelCols)};
  if (info.pooled_width > 0) input.pooled = seeded({kPictures, info.pooled_width}, 3);
  if (info.takes_guidance) input.guidance = at::tensor({3.5f, 1.25f});
  return input;
}

at::Tensor velocity(const ParallelCase& what, const nn::RankGroup* tensor, const nn::RankGroup* sequence) {
  c10::InferenceMode no_gradients;
  nn::LoadOptions options = what.options;
  options.tensor_ranks = tensor, options.sequence_ranks = sequence;
  nn::WeightSource source(what.checkpoint, options);
  const std::unique_ptr<Dit> model = load_dit(source);
  return model->forward(parallel_input(*model, what.text_tokens));
}

// Both are as far from the true result as dit_test.cc allows one to be.
void expect_like_one_rank(const ParallelCase& what,
                          std::initializer_list<std::pair<int64_t, int64_t>> grids) {
  const at::Tensor want = velocity(what, nullptr, nullptr);
  for (const auto& [tensor, sequence] : grids) {
    SCOPED_TRACE(cat(tensor, " tensor ranks x ", sequence, " sequence ranks"));
    std::vector<at::Tensor> results(static_cast<size_t>(tensor * sequence));
    nn::run_on_grid(tensor, sequence, [&](const nn::RankGroup* across, const nn::RankGroup* along) {
      const int64_t rank = (along ? along->rank() : 0) * tensor + (across ? across->rank() : 0);
      results[static_cast<size_t>(rank)] = velocity(what, across, along);
    });
    for (const at::Tensor& got : results) {
      ASSERT_TRUE(got.defined());
      const double depth = 2 * (kSumsOfBlock * 4 + 5);
      EXPECT_LE(error_ratio(got, want, kEpsilonF32, depth, kSumWidth), 1);
    }
  }
}

std::unique_ptr<Checkpoint> tiny_dit(const std::string& name) {
  return open_hugging_face_folder(cat(QUAVER_TEST_DATA, "/golden/diffusion/", name));
}

// The architecture of a tiny model with so many heads, and random weights: what was 3 heads wide follows.
void with_heads(const std::string& name, int64_t heads, nn::MemoryCheckpoint& copy) {
  const std::unique_ptr<Checkpoint> original = tiny_dit(name);
  copy.edit_config() = original->config();
  copy.edit_config()["num_attention_heads"] = heads;
  uint64_t seed = 0;
  for (const TensorInfo& info : original->tensors()) {
    std::vector<int64_t> shape = info.shape;
    for (int64_t& extent : shape)
      if (extent % 48 == 0) extent = extent / 48 * 16 * heads;
    at::Tensor values = seeded(shape, ++seed);
    values.mul_(shape.size() == 2 ? 0.9 / std::sqrt(static_cast<double>(shape[1])) : 0.1);
    if (shape.size() == 1 && info.name.ends_with("weight")) values.add_(1);  // a norm's
    copy.add(info.name, values.to(at::kBFloat16));
  }
}

const char* const kTinyDits[] = {"flux_guided", "ovis_image"};

TEST(DitParallel, TensorRanks) {
  for (const char* name : kTinyDits) expect_like_one_rank({*tiny_dit(name)}, {{2, 1}, {3, 1}});
}

// 15 tokens of the picture, 7 of the text: no number of ranks divides either.
TEST(DitParallel, F123SequenceRanksOnOddTokenCounts) {
  for (const char* name : kTinyDits) expect_like_one_rank({*tiny_dit(name)}, {{1, 2}, {1, 3}});
}

TEST(DitParallel, F123BothAtOnceWithHeadsThatDivideUnevenly) {
  for (const char* name : kTinyDits) {
    nn::MemoryCheckpoint five;
    with_heads(name, 5, five);
    expect_like_one_rank({five}, {{4, 1}, {1, 4}, {2, 2}});
  }
}

TEST(DitParallel, ARankMayHaveNoTextToken) {
  expect_like_one_rank({*tiny_dit("flux_guided"), {}, 1}, {{1, 3}, {1, 2}});
}

// Every layer of the blocks in 4 bits, groups of 32 with zero points: heads of 16 channels cut them.
std::optional<QuantWeight> in_four_bits(const std::string& layer, const at::Tensor& weight) {
  if (layer.find("transformer_blocks.") == std::string::npos) return std::nullopt;
  std::mt19937 generator(static_cast<uint32_t>(std::hash<std::string>()(layer)));
  const auto bytes = [&](int64_t count, uint32_t below) {
    std::vector<uint8_t> data(static_cast<size_t>(count));
    for (uint8_t& value : data) value = static_cast<uint8_t>(generator() % below);
    return Buffer::copy_of(data);
  };
  QuantWeight quant{.element = Element::kInt4, .shape = {weight.size(0), weight.size(1)}, .group = {1, 32}};
  const int64_t groups = quant.shape.rows * quant.num_group_cols();
  quant.codes = bytes(quant.shape.rows * quant.row_bytes(), 256);
  std::vector<float> scales(static_cast<size_t>(groups));
  for (float& scale : scales)  // a code is 5 from its zero point in the mean
    scale = static_cast<float>(0.5 + generator() % 64 / 64.0) * 0.2f /
            std::sqrt(static_cast<float>(weight.size(1)));
  quant.scale.data = Buffer::copy_of(scales);
  quant.offset = IntegerZeros{bytes(groups, 16)};
  return quant;
}

TEST(DitParallel, QuantizedWeights) {
  const nn::LoadOptions options{.exact_activations = true, .round_plain = in_four_bits};
  for (const char* name : kTinyDits)
    expect_like_one_rank({*tiny_dit(name), options}, {{2, 1}, {3, 1}, {1, 2}});
}

TEST(DitParallel, RanksWithoutAHeadAreRefusedWithTheirFlags) {
  const std::unique_ptr<Checkpoint> three = tiny_dit("flux_guided");
  nn::run_on_grid(2, 2, [&](const nn::RankGroup* across, const nn::RankGroup* along) {
    const Error error = [&] {
      try {
        velocity({*three}, across, along);
      } catch (const Error& thrown) {
        return thrown;
      }
      return Error(ErrorKind::kInternal, "it loads");
    }();
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_STREQ(
        error.what(),
        "--tensor-parallel-size 2 times --ulysses-degree 2 is more than the 3 attention heads of this "
        "transformer; each rank needs one");
  });
}

// A rank holds its part alone.
TEST(DitParallel, TensorRanksHoldAPartOfEachLayer) {
  nn::MemoryCheckpoint four;
  with_heads("flux_guided", 4, four);
  const auto bytes_of = [&](const nn::RankGroup* across) {
    nn::WeightSource source(four, {.tensor_ranks = across});
    const std::unique_ptr<Dit> model = load_dit(source);
    size_t bytes = 0;
    for (int64_t i = 0; i < model->info().num_blocks; ++i)
      for (const NamedLinear& layer : model->block(i).linears())
        bytes += layer.linear->dense_weight().nbytes();
    return bytes;
  };
  const size_t whole = bytes_of(nullptr);
  nn::run_on_ranks(4, [&](const nn::RankGroup* group) { EXPECT_EQ(bytes_of(group), whole / 4); });
}

}  // namespace
}  // namespace quaver::models
