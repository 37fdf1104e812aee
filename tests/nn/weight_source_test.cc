// Counted loading: every tensor is used, in the shape and dtype that its slot wants, or the load stops and
// names it.
#include "nn/weight_source.h"

#include <gtest/gtest.h>

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
