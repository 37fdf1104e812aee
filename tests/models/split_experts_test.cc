// Stacked experts as tensors of their own: which element goes where, what passes by, what is refused.
#include "models/llm/split_experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "nn/memory_checkpoint.h"
#include "nn/tensor_bridge.h"

namespace quaver::models {
namespace {

using nn::MemoryCheckpoint;

// Element i of a tensor is i: 2 experts, 3 in, 2 x 2 out.
at::Tensor counted_tensor(std::vector<int64_t> shape, at::ScalarType type) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return at::arange(count, at::kFloat).view(shape).to(type);
}

std::unique_ptr<MemoryCheckpoint> stacked(at::ScalarType type = at::kFloat) {
  auto checkpoint = std::make_unique<MemoryCheckpoint>();
  checkpoint->add("l.experts.gate_up_proj", counted_tensor({2, 3, 4}, type));
  checkpoint->add("l.experts.gate_up_proj_bias", counted_tensor({2, 4}, type));
  checkpoint->add("l.experts.down_proj", counted_tensor({2, 2, 3}, type));
  checkpoint->add("l.experts.down_proj_bias", counted_tensor({2, 3}, type));
  checkpoint->add("l.router.weight", counted_tensor({2, 3}, type));
  return checkpoint;
}

at::Tensor read_float(const Checkpoint& checkpoint, const std::string& name) {
  return nn::tensor_over(checkpoint.read(name), name).to(at::kFloat);
}

TEST(SplitExperts, EveryElementFindsItsPlace) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    auto kept = stacked(type), given = stacked(type);
    std::unique_ptr<Checkpoint> split = split_interleaved_experts(std::move(given));
    at::Tensor gate_up = read_float(*kept, "l.experts.gate_up_proj"),
               down = read_float(*kept, "l.experts.down_proj");
    for (int64_t e = 0; e < 2; ++e) {
      auto part = [&](const char* name) { return read_float(*split, cat("l.experts.", e, ".", name)); };
      EXPECT_TRUE(part("gate_proj.weight").equal(gate_up[e].t().slice(0, 0, 4, 2)));
      EXPECT_TRUE(part("up_proj.weight").equal(gate_up[e].t().slice(0, 1, 4, 2)));
      EXPECT_TRUE(part("down_proj.weight").equal(down[e].t()));
      at::Tensor bias = read_float(*kept, "l.experts.gate_up_proj_bias")[e];
      EXPECT_TRUE(part("gate_proj.bias").equal(bias.slice(0, 0, 4, 2)));
      EXPECT_TRUE(part("up_proj.bias").equal(bias.slice(0, 1, 4, 2)));
      EXPECT_TRUE(part("down_proj.bias").equal(read_float(*kept, "l.experts.down_proj_bias")[e]));
    }
  }
}

// More columns and rows than one strip takes.
TEST(SplitExperts, LargeMatricesToo) {
  auto checkpoint = std::make_unique<MemoryCheckpoint>();
  at::Tensor stack = counted_tensor({3, 70, 2 * 45}, at::kFloat);
  checkpoint->add("experts.x.experts.gate_up_proj", stack);
  std::unique_ptr<Checkpoint> split = split_interleaved_experts(std::move(checkpoint));
  EXPECT_TRUE(
      read_float(*split, "experts.x.experts.2.up_proj.weight").equal(stack[2].t().slice(0, 1, 90, 2)));
}

TEST(SplitExperts, NamesAreSortedAndAccountForAllBytes) {
  std::unique_ptr<Checkpoint> split = split_interleaved_experts(stacked());
  EXPECT_EQ(split->tensors().size(), 1u + 2 * 6);
  EXPECT_TRUE(std::ranges::is_sorted(split->tensors(), {}, &TensorInfo::name));
  for (const TensorInfo& info : split->tensors()) {
    const TensorView view = split->read(info.name);
    EXPECT_EQ(view.shape, info.shape) << info.name;
    EXPECT_EQ(view.data.size_bytes(), info.size_bytes) << info.name;
    EXPECT_EQ(split->file_of(info.name), "memory/model.safetensors");
  }
  EXPECT_EQ(split->find("l.experts.down_proj"), nullptr);
}

// Codes are their format's matter.
TEST(SplitExperts, OtherTensorsPassBy) {
  auto checkpoint = std::make_unique<MemoryCheckpoint>();
  at::Tensor codes = at::zeros({2, 4, 1, 16}, at::kByte);
  checkpoint->add("l.experts.gate_up_proj_blocks", codes);
  checkpoint->add("l.experts.gate_up_proj", at::zeros({2, 4}, at::kByte));
  checkpoint->add("l.gate_up_proj", counted_tensor({3, 4}, at::kFloat));
  std::unique_ptr<Checkpoint> split = split_interleaved_experts(std::move(checkpoint));
  EXPECT_EQ(split->tensors().size(), 3u);
  EXPECT_EQ(split->read("l.experts.gate_up_proj_blocks").shape, (std::vector<int64_t>{2, 4, 1, 16}));
}

std::string split_error(const std::string& name, const at::Tensor& tensor) {
  auto checkpoint = stacked();
  checkpoint->add(name, tensor);
  try {
    split_interleaved_experts(std::move(checkpoint));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
    return error.what();
  }
  return "";
}

TEST(SplitExperts, ShapesThatAreNoStackAreRefused) {
  EXPECT_EQ(split_error("l.experts.gate_up_proj", at::zeros({2, 3, 5})),
            "memory/model.safetensors: tensor 'l.experts.gate_up_proj' has shape [2, 3, 5], expected "
            "[experts, in, 2 x "
            "out] of at most 65536 experts");
  for (auto shape : {std::vector<int64_t>{2, 12}, {2, 3, 2, 2}, {0, 3, 4}, {2, 0, 4}, {65537, 1, 2}})
    EXPECT_NE(split_error("l.experts.gate_up_proj", at::zeros(shape)).find("expected [experts, in"),
              std::string::npos);
  for (auto shape : {std::vector<int64_t>{6}, {2, 3, 1}, {2, 0}})
    EXPECT_NE(split_error("l.experts.down_proj_bias", at::zeros(shape)).find("expected [experts, out]"),
              std::string::npos);
}

TEST(SplitExperts, OneWeightTwiceIsRefused) {
  EXPECT_EQ(split_error("l.experts.1.down_proj.weight", at::zeros({3, 2})),
            "memory/model.safetensors: tensor 'l.experts.down_proj' holds what "
            "'l.experts.1.down_proj.weight' holds, too");
}

}  // namespace
}  // namespace quaver::models
