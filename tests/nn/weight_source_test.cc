// Counted loading: every tensor is used, in the shape and dtype that its slot wants, or the load stops and
// names it.
#include "nn/weight_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nn/memory_checkpoint.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

testing::AssertionResult mentions(const Error& error, ErrorKind kind,
                                  std::initializer_list<const char*> words) {
  if (error.kind() != kind) return testing::AssertionFailure() << "another kind of error: " << error.what();
  for (const char* word : words)
    if (std::string(error.what()).find(word) == std::string::npos)
      return testing::AssertionFailure() << "'" << word << "' is not in: " << error.what();
  return testing::AssertionSuccess();
}

void fill(MemoryCheckpoint& checkpoint) {
  checkpoint.add("a.weight", randn({4, 8}, 1).to(at::kBFloat16));
  checkpoint.add("a.bias", randn({4}, 2));
  checkpoint.add("norm.weight", randn({8}, 3).to(at::kBFloat16));
}

TEST(WeightSource, LoadsAndCounts) {
  MemoryCheckpoint checkpoint;
  fill(checkpoint);
  WeightSource source(checkpoint, {});
  Linear layer = source.linear("a", 4, 8);
  EXPECT_EQ(layer.dense_weight().scalar_type(), at::kBFloat16) << "weights stay as stored";
  EXPECT_EQ(layer.bias()->scalar_type(), at::kFloat);
  EXPECT_TRUE(
      mentions(thrown_by([&] { source.finish(""); }), ErrorKind::kBadFile, {"memory", "norm.weight"}));
  source.finish("a.");
  EXPECT_EQ(source.tensor("norm.weight", {8}).scalar_type(), at::kFloat);
  source.finish("");
}

TEST(WeightSource, ComputeDtypeReachesWeights) {
  MemoryCheckpoint checkpoint;
  fill(checkpoint);
  WeightSource source(checkpoint, {.compute_dtype = at::kBFloat16});
  EXPECT_EQ(source.linear("a", 4, 8).bias()->scalar_type(), at::kBFloat16);
  EXPECT_EQ(source.tensor("norm.weight", {8}).scalar_type(), at::kBFloat16);
}

TEST(WeightSource, WideTensorsAreNotRounded) {
  MemoryCheckpoint checkpoint;
  at::Tensor bias = randn({4}, 2);
  checkpoint.add("bias", bias);
  for (at::ScalarType dtype : {at::kBFloat16, at::kFloat, at::kDouble}) {
    WeightSource source(checkpoint, {.compute_dtype = dtype});
    EXPECT_TRUE(source.wide_tensor("bias", {4}).to(at::kFloat).equal(bias));
    source.finish("");
  }
  WeightSource source(checkpoint, {.compute_dtype = at::kDouble});
  EXPECT_EQ(source.wide_tensor("bias", {4}).scalar_type(), at::kDouble);
}

TEST(WeightSource, NamesWhatIsWrong) {
  MemoryCheckpoint checkpoint;
  fill(checkpoint);
  checkpoint.add("codes", randn({4}, 1).to(at::kInt));
  WeightSource source(checkpoint, {});
  EXPECT_TRUE(mentions(thrown_by([&] { source.tensor("b.weight", {8}); }), ErrorKind::kBadFile,
                       {"memory", "b.weight", "missing"}));
  EXPECT_TRUE(mentions(thrown_by([&] { source.tensor("norm.weight", {9}); }), ErrorKind::kBadFile,
                       {"model.safetensors", "norm.weight", "[8]", "[9]"}));
  EXPECT_TRUE(
      mentions(thrown_by([&] { source.tensor("codes", {4}); }), ErrorKind::kBadFile, {"codes", "i32"}));
  EXPECT_TRUE(mentions(thrown_by([&] { source.linear("a", 8, 4); }), ErrorKind::kBadFile,
                       {"a.weight", "[4, 8]", "[8, 4]"}));
}

TEST(WeightSource, BiasRules) {
  MemoryCheckpoint checkpoint;
  fill(checkpoint);
  checkpoint.remove("a.bias");
  WeightSource source(checkpoint, {});
  EXPECT_FALSE(source.linear("a", 4, 8, Bias::kOptional).bias().has_value());
  EXPECT_TRUE(mentions(thrown_by([&] { source.linear("a", 4, 8, Bias::kRequired); }), ErrorKind::kBadFile,
                       {"a.bias", "missing"}));
}

// Hands out copies and counts the bytes of those that live.
class CountingCheckpoint : public MemoryCheckpoint {
 public:
  TensorView read(std::string_view name) const override {
    ++reads;
    TensorView view = MemoryCheckpoint::read(name);
    const auto bytes = static_cast<int64_t>(view.data.size_bytes());
    peak = std::max(peak, live += bytes);
    auto copy = std::make_shared<Buffer>(Buffer::copy_of(view.data.bytes()));
    view.data =
        Buffer(copy->bytes(), std::shared_ptr<void>(nullptr, [this, copy, bytes](void*) { live -= bytes; }));
    return view;
  }
  // The first that the source does with a weight that it no longer needs plain.
  void release(std::string_view) const override { live_at_release = live; }

  mutable int64_t live = 0, peak = 0, live_at_release = -1, reads = 0;
};

RoundPlain round_to_random(const CountingCheckpoint& checkpoint) {
  return [&](const std::string& layer, const at::Tensor& weight) -> std::optional<QuantWeight> {
    EXPECT_EQ(weight.scalar_type(), at::kBFloat16) << "as stored";
    EXPECT_EQ(checkpoint.live, static_cast<int64_t>(weight.nbytes())) << layer;
    if (layer == "plain") return std::nullopt;
    return random_quant_weight(weight.size(0), weight.size(1), {}, 9);
  };
}

TEST(RoundPlain, NoPlainWeightLivesBesideItsLayer) {
  CountingCheckpoint checkpoint;
  for (const char* name : {"a", "b", "c"})
    checkpoint.add(cat(name, ".weight"), randn({name[0] == 'b' ? 128 : 64, 64}, 1).to(at::kBFloat16));
  for (const bool kernel_layout_only : {false, true}) {
    WeightSource source(
        checkpoint, {.kernel_layout_only = kernel_layout_only, .round_plain = round_to_random(checkpoint)});
    for (const char* name : {"a", "b", "c"}) {
      const int64_t out = name[0] == 'b' ? 128 : 64;
      Linear layer = source.linear(name, out, 64);
      EXPECT_EQ(checkpoint.live_at_release, 0) << "before the kernel's layout is made";
      EXPECT_EQ(checkpoint.live, 0);
      EXPECT_EQ(layer.quant_weight() == nullptr, kernel_layout_only);
      EXPECT_LT(layer.size_bytes(), static_cast<size_t>(out) * 64);
    }
    source.finish("");
  }
  EXPECT_EQ(checkpoint.peak, 128 * 64 * 2) << "the largest";
}

// Kernels take float32 rows: where rows have 16 bits, a layer is expanded once and not in every call.
TEST(RoundPlain, LayersForRowsOfSixteenBitsAreExpandedOnce) {
  CountingCheckpoint checkpoint;
  checkpoint.add("a.weight", randn({64, 64}, 1).to(at::kBFloat16));
  WeightSource source(checkpoint, {.compute_dtype = at::kBFloat16,
                                   .kernel_layout_only = true,
                                   .round_plain = round_to_random(checkpoint)});
  Linear layer = source.linear("a", 64, 64);
  EXPECT_EQ(layer.quant_weight(), nullptr);
  EXPECT_EQ(layer.dense_weight().scalar_type(), at::kBFloat16);
  EXPECT_EQ(layer.size_bytes(), 64u * 64 * 2);
}

TEST(RoundPlain, WhatItLeavesIsPlainAndReadOnce) {
  CountingCheckpoint checkpoint;
  checkpoint.add("plain.weight", randn({32, 64}, 1).to(at::kBFloat16));
  WeightSource source(checkpoint, {.round_plain = round_to_random(checkpoint)});
  Linear layer = source.linear("plain", 32, 64);
  EXPECT_EQ(layer.quant_weight(), nullptr);
  EXPECT_EQ(layer.dense_weight().scalar_type(), at::kBFloat16);
  EXPECT_EQ(checkpoint.reads, 1);
}

TEST(RoundPlain, BiasInputAndDenseFormAreAsOfACheckpoint) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("a.weight", randn({32, 64}, 1));
  checkpoint.add("a.bias", randn({32}, 2));
  const RoundPlain round = [](const std::string&, const at::Tensor&) {
    QuantWeight weight = random_quant_weight(32, 64, {}, 9);
    weight.activation = {.mode = ActivationQuant::Mode::kDynamic, .element = Element::kInt8, .group = -1};
    return std::optional(std::move(weight));
  };
  for (const bool strict : {true, false}) {
    WeightSource source(checkpoint, {.strict_activations = strict, .round_plain = round});
    Linear layer = source.linear("a", 32, 64, Bias::kRequired);
    EXPECT_TRUE(layer.bias()->equal(randn({32}, 2)));
    EXPECT_EQ(layer.input_quant().active(), strict);
    source.finish("");
  }
  WeightSource dense(checkpoint, {.keep_quantized = false, .round_plain = round});
  Linear layer = dense.linear("a", 32, 64);
  EXPECT_EQ(layer.quant_weight(), nullptr);
  const std::vector<float> values = dequantize(random_quant_weight(32, 64, {}, 9));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), layer.dense_weight().const_data_ptr<float>()));
}

TEST(WeightSource, ShapesAloneReadNothing) {
  CountingCheckpoint checkpoint;
  fill(checkpoint);
  WeightSource source(checkpoint, {.device = at::kMeta});
  Linear layer = source.linear("a", 4, 8);
  EXPECT_EQ(layer.out_features(), 4);
  EXPECT_EQ(layer.in_features(), 8);
  EXPECT_EQ(source.tensor("norm.weight", {8}).sizes(), (at::IntArrayRef{8}));
  EXPECT_TRUE(mentions(thrown_by([&] { source.linear("a", 8, 4); }), ErrorKind::kBadFile,
                       {"a.weight", "[4, 8]", "[8, 4]"}));
  source.finish("");
  EXPECT_EQ(checkpoint.reads, 0);
}

TEST(WeightSource, ManyUnusedTensorsAreCounted) {
  MemoryCheckpoint checkpoint;
  for (int i = 0; i < 9; ++i) checkpoint.add(cat("t", i), randn({1}, 1));
  WeightSource source(checkpoint, {});
  EXPECT_TRUE(
      mentions(thrown_by([&] { source.finish(""); }), ErrorKind::kBadFile, {"9 tensors", "t0", "4 more"}));
  source.ignore_if([](std::string_view name) { return name != "t5"; });
  source.ignore("t5");
  source.finish("");
}

}  // namespace
}  // namespace quaver::nn
