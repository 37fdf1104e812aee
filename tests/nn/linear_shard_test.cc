// Layers that ranks divide give what the whole layer gives, whatever the weight is stored as and whatever is
// asked of its input.
#include "nn/linear_shard.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>

#include "formats/format.h"
#include "nn/low_rank.h"
#include "nn/memory_checkpoint.h"
#include "nn/support.h"
#include "nn/thread_ranks.h"
#include "nn/weight_source.h"

namespace quaver::nn {
namespace {

constexpr int64_t kShardOut = 48, kShardIn = 96, kShardTokens = 5;

enum class Divided { kColumns, kTwoRuns, kRows, kGathered };
constexpr Divided kEachWay[] = {Divided::kColumns, Divided::kTwoRuns, Divided::kRows, Divided::kGathered};

// Rows or columns in units of 16, so that three ranks' shares differ; kTwoRuns takes columns of each half.
LinearShard shard_of(Divided how, const RankGroup* ranks) {
  const IndexRun half = share_of(ranks, kShardIn / 2, 16);
  switch (how) {
    case Divided::kColumns:
      return shard_of_columns(ranks, kShardIn, {share_of(ranks, kShardIn, 16)});
    case Divided::kTwoRuns:
      return shard_of_columns(ranks, kShardIn, {half, {kShardIn / 2 + half.first, half.count}});
    case Divided::kRows:
      return shard_of_rows(ranks, kShardOut, {share_of(ranks, kShardOut, 16)});
    default:
      return shard_of_gathered_rows(ranks, kShardOut);
  }
}

// What a rank's layer is given and what it must give.
at::Tensor input_of_rank(const LinearShard& shard, const at::Tensor& x) {
  return shard.has_columns() ? taken(x, 1, shard.runs).contiguous() : x;
}
at::Tensor output_of_rank(const LinearShard& shard, const at::Tensor& y) {
  return shard.part == LinearShard::Part::kRows ? taken(y, 1, shard.runs) : y;
}

void add_divided_layer(MemoryCheckpoint& checkpoint) {
  checkpoint.add("a.weight", randn({kShardOut, kShardIn}, 1).to(at::kBFloat16));
  checkpoint.add("a.bias", randn({kShardOut}, 2).to(at::kBFloat16));
}

// On each rank: the part's output, and `more` of the part and the whole layer.
template <class More>
void expect_like_whole(int64_t ranks, const LoadOptions& options, More more) {
  MemoryCheckpoint checkpoint;
  add_divided_layer(checkpoint);
  const Linear whole = WeightSource(checkpoint, options).linear("a", kShardOut, kShardIn);
  const at::Tensor x = randn({kShardTokens, kShardIn}, 3), y = whole.forward(x);
  for (const Divided how : kEachWay)
    run_on_ranks(ranks, [&](const RankGroup* group) {
      LoadOptions here = options;
      here.tensor_ranks = group;
      WeightSource source(checkpoint, here);
      const LinearShard shard = shard_of(how, group);
      const Linear part = source.linear("a", kShardOut, kShardIn, Bias::kRequired, shard);
      source.finish("");
      EXPECT_EQ(part.whole_shape(), (Extent2d{kShardOut, kShardIn}));
      EXPECT_TRUE(near(part.forward(input_of_rank(shard, x)), output_of_rank(shard, y), kShardIn));
      more(whole, part);
    });
}

void expect_weight_of_whole(const Linear& whole, const Linear& part) {
  const LinearShard& shard = part.shard();
  EXPECT_TRUE(
      at::equal(part.dense_weight(), taken(whole.dense_weight(), shard.has_rows() ? 0 : 1, shard.runs)));
}

// Codes of 4 bits in groups of 32, which shares of 16 cut.
std::optional<QuantWeight> as_int4(const std::string&, const at::Tensor&) {
  return random_quant_weight(kShardOut, kShardIn, {.zeros = true}, 7);
}

TEST(LinearShard, PlainWeights) {
  for (const int64_t ranks : {2, 3}) expect_like_whole(ranks, {}, expect_weight_of_whole);
}

TEST(LinearShard, WeightsThatAreRoundedWhileLoading) {
  for (const int64_t ranks : {2, 3})
    expect_like_whole(ranks, {.exact_activations = true, .round_plain = as_int4}, expect_weight_of_whole);
}

TEST(LinearShard, KernelLayoutsAlone) {
  expect_like_whole(2, {.kernel_layout_only = true, .exact_activations = true, .round_plain = as_int4},
                    [](const Linear&, const Linear& part) { EXPECT_EQ(part.quant_weight(), nullptr); });
}

// F034: each rank's columns are scattered over all groups.
TEST(LinearShard, F034ActivationOrderOnSeveralRanks) {
  const auto permuted = [](const std::string&, const at::Tensor&) -> std::optional<QuantWeight> {
    return random_quant_weight(kShardOut, kShardIn, {.permuted = true}, 7);
  };
  for (const int64_t ranks : {2, 3})
    expect_like_whole(ranks, {.exact_activations = true, .round_plain = permuted}, expect_weight_of_whole);
}

RoundPlain asking(const ActivationQuant& asked) {
  return [asked](const std::string&, const at::Tensor&) {
    QuantWeight weight = random_quant_weight(kShardOut, kShardIn, {.bits = 8}, 7);
    weight.activation = asked;
    weight.input_multiplier.resize(kShardIn);
    std::iota(weight.input_multiplier.begin(), weight.input_multiplier.end(), 1.0f);
    return std::optional(std::move(weight));
  };
}

using Mode = ActivationQuant::Mode;
const std::vector<ActivationQuant> kInputsOfAllColumns = {
    {.mode = Mode::kStatic, .element = Element::kE4M3FN, .static_scale = 0.01f},
    {.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = -1},
    {.mode = Mode::kDynamic, .element = Element::kInt8, .group = -1, .sym = false},
    {.mode = Mode::kDynamic, .element = Element::kInt8, .group = 0},
    {.mode = Mode::kDynamic, .element = Element::kInt8, .group = -1, .outlier_threshold = 2.5f},
    {.mode = Mode::kDynamic, .element = Element::kE2M1, .group = 16, .scale = ScaleCodec::kE8M0},
    {.mode = Mode::kDynamic,
     .element = Element::kE2M1,
     .group = 16,
     .scale = ScaleCodec::kE4M3FN,
     .super_per_row = true}};

TEST(LinearShard, InputsQuantizeAsAWhole) {
  const at::Tensor x = randn({kShardTokens, kShardIn}, 3);
  for (const ActivationQuant& asked : kInputsOfAllColumns) {
    const at::Tensor want = quantize_dequantize(x, asked);
    run_on_ranks(3, [&](const RankGroup* group) {
      const LinearShard shard = shard_of(Divided::kTwoRuns, group);
      EXPECT_TRUE(
          at::equal(quantize_dequantize(input_of_rank(shard, x), asked, group), input_of_rank(shard, want)))
          << describe(asked);
    });
    expect_like_whole(2, {.round_plain = asking(asked)}, expect_weight_of_whole);
  }
}

TEST(LinearShard, InputsWhoseGroupsACutDividesAreRefusedByName) {
  MemoryCheckpoint checkpoint;
  add_divided_layer(checkpoint);
  const ActivationQuant asked{.mode = Mode::kDynamic, .element = Element::kE2M1, .group = 32};
  run_on_ranks(2, [&](const RankGroup* group) {
    LoadOptions options{.round_plain = asking(asked), .tensor_ranks = group};
    const LinearShard shard = shard_of(Divided::kTwoRuns, group);
    const Error error = thrown_by(
        [&] { WeightSource(checkpoint, options).linear("a", kShardOut, kShardIn, Bias::kOptional, shard); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_TRUE(
        std::string(error.what()).starts_with("memory: layer 'a': inputs are quantized in groups of 32"))
        << error.what();
    options.strict_activations = false;  // nobody asks for it then
    WeightSource(checkpoint, options).linear("a", kShardOut, kShardIn, Bias::kOptional, shard);
  });
}

TEST(LinearShard, UpdatesOfLowRankAreDividedLikeTheWeight) {
  MemoryCheckpoint checkpoint;
  add_divided_layer(checkpoint);
  const auto updates = [] {
    return std::vector<Linear::LowRank>{{0, randn({3, kShardIn}, 8), randn({kShardOut, 3}, 9)}};
  };
  Linear whole = WeightSource(checkpoint, {}).linear("a", kShardOut, kShardIn);
  whole.set_low_rank(updates());
  const at::Tensor x = randn({kShardTokens, kShardIn}, 3);
  const auto with_update = [&](const Linear& layer, const at::Tensor& input) {
    LowRankScope scope({0.5});
    return layer.forward(input);
  };
  const at::Tensor y = with_update(whole, x);
  for (const Divided how : kEachWay)
    run_on_ranks(3, [&](const RankGroup* group) {
      const LinearShard shard = shard_of(how, group);
      Linear part = WeightSource(checkpoint, {.tensor_ranks = group})
                        .linear("a", kShardOut, kShardIn, Bias::kOptional, shard);
      part.set_low_rank(updates());
      EXPECT_TRUE(near(with_update(part, input_of_rank(shard, x)), output_of_rank(shard, y), kShardIn));
    });
}

TEST(LinearShard, GroupsOfLayersKeepTheirParts) {
  MemoryCheckpoint checkpoint;
  add_divided_layer(checkpoint);
  const at::Tensor x = randn({kShardTokens, kShardIn}, 3);
  const at::Tensor y = WeightSource(checkpoint, {}).linear("a", kShardOut, kShardIn).forward(x);
  run_on_ranks(2, [&](const RankGroup* group) {
    WeightSource source(checkpoint, {.tensor_ranks = group});
    const LinearShard shard = shard_of(Divided::kRows, group), all = shard_of(Divided::kGathered, group);
    const Linear own = source.linear("a", kShardOut, kShardIn, Bias::kOptional, shard),
                 gathered = source.linear("a", kShardOut, kShardIn, Bias::kOptional, all);
    const std::vector<at::Tensor> results = LinearGroup({&own, &gathered}).forward(x);
    EXPECT_TRUE(near(results[0], output_of_rank(shard, y), kShardIn));
    EXPECT_TRUE(near(results[1], y, kShardIn));
  });
}

// The layer of a tool's folder that ranks divide along its columns, as a model of language models does; its
// shape; none in folders that store experts together.
std::optional<std::pair<std::string, Extent2d>> down_layer(const Checkpoint& checkpoint) {
  const Format* format = detect_format(checkpoint);
  if (!format) return std::nullopt;
  for (const std::string& name : quantized_layers(checkpoint, *format))
    if (name.ends_with("down_proj") || name.ends_with("o_proj"))
      return std::pair(name, format->unpack(format->plan(checkpoint, name), checkpoint).shape);
  return std::nullopt;
}

// F034, F038 as the tools write them: orders of activation, blocks, second levels, inputs of every kind.
TEST(LinearShard, LayersOfEveryToolsFolder) {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry :
       std::filesystem::directory_iterator(cat(QUAVER_TEST_DATA, "/fixtures/checkpoints")))
    folders.push_back(entry.path());
  std::atomic<int> compared = 0;
  run_on_ranks(2, [&](const RankGroup* group) {
    for (const std::filesystem::path& folder : folders) {
      const auto checkpoint = open_hugging_face_folder(folder);
      const auto layer = down_layer(*checkpoint);
      if (!layer) continue;
      const auto& [name, shape] = *layer;
      const LinearShard shard = shard_of_columns(group, shape.cols, {share_of(group, shape.cols, 32)});
      const LoadOptions alone{.exact_activations = true};
      LoadOptions here = alone;
      here.tensor_ranks = group;
      const Linear whole = WeightSource(*checkpoint, alone).linear(name, shape.rows, shape.cols);
      const Linear part =
          WeightSource(*checkpoint, here).linear(name, shape.rows, shape.cols, Bias::kOptional, shard);
      const at::Tensor x = randn({kShardTokens, shape.cols}, 3);
      EXPECT_TRUE(near(part.forward(input_of_rank(shard, x)), whole.forward(x), shape.cols))
          << folder.filename() << " " << name;
      ++compared;
    }
  });
  EXPECT_GT(compared, 2 * 40);
}

TEST(LinearShard, SharesAreNeighboursAndFillTheWhole) {
  for (const int64_t ranks : {1, 2, 3, 5})
    for (const auto& [total, unit] : {std::pair<int64_t, int64_t>{96, 16}, {5, 1}, {77, 11}}) {
      std::vector<IndexRun> shares(static_cast<size_t>(ranks));
      run_on_ranks(ranks, [&](const RankGroup* group) {
        shares[group ? static_cast<size_t>(group->rank()) : 0] = share_of(group, total, unit);
      });
      int64_t next = 0;
      for (const IndexRun& share : shares) {
        EXPECT_EQ(share.first, next);
        EXPECT_TRUE(share.count > 0 && share.count % unit == 0);
        next += share.count;
      }
      EXPECT_EQ(next, total);
    }
}

TEST(LinearShard, ChannelsArePartedWhereGroupsEnd) {
  run_on_ranks(3, [](const RankGroup* group) {
    EXPECT_EQ(share_of_channels(group, 3072).count, 1024);
    EXPECT_EQ(share_of_channels(group, 3072 + 128).first % 128, 0);
    EXPECT_EQ(share_of_channels(group, 192).first % 16, 0) << "12 units of 16 are 4 for each";
    EXPECT_EQ(share_of_channels(group, 7).count, group->rank() == 0 ? 3 : 2);
    EXPECT_EQ(thrown_by([&] { share_of(group, 32, 16); }).kind(),
              group->rank() == 2 ? ErrorKind::kInvalidInput : ErrorKind::kInternal);
  });
  EXPECT_EQ(share_of(nullptr, 96, 16), (IndexRun{0, 96}));
  EXPECT_EQ(shard_of_rows(nullptr, 96, {{0, 96}}).part, LinearShard::Part::kWhole);
}

}  // namespace
}  // namespace quaver::nn
