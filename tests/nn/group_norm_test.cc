// Group normalization against its definition in double precision, in both memory orders.
#include "nn/group_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "nn/memory_checkpoint.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

constexpr int64_t kBatch = 2, kChannels = 12, kGroups = 3, kPictureRows = 5, kPictureCols = 7;
constexpr double kGroupEps = 0.01;
constexpr double kGroupSize = kChannels / kGroups * kPictureRows * kPictureCols;

struct GroupNormTest : testing::Test {
  GroupNormTest() {
    checkpoint_.add("norm.weight", weight_);
    checkpoint_.add("norm.bias", bias_);
  }
  GroupNorm load(at::ScalarType dtype = at::kFloat) const {
    WeightSource source(checkpoint_, {.compute_dtype = dtype});
    return GroupNorm(source, "norm", kChannels, kGroups, kGroupEps);
  }
  at::Tensor reference() const {
    at::Tensor groups = x_.to(at::kDouble).reshape({kBatch, kGroups, -1});
    at::Tensor centred = groups - groups.mean(-1, true);
    at::Tensor normed = centred / (centred.square().mean(-1, true) + kGroupEps).sqrt();
    return normed.view(x_.sizes()) * weight_.to(at::kDouble).view({1, -1, 1, 1}) +
           bias_.to(at::kDouble).view({1, -1, 1, 1});
  }
  at::Tensor x_ = randn({kBatch, kChannels, kPictureRows, kPictureCols}, 1) * 2 + 1;
  at::Tensor weight_ = randn({kChannels}, 2), bias_ = randn({kChannels}, 3);
  MemoryCheckpoint checkpoint_;
  c10::InferenceMode no_gradients_;
};

TEST_F(GroupNormTest, EqualsItsDefinition) {
  EXPECT_TRUE(near(load().forward(x_), reference(), kGroupSize));
  EXPECT_TRUE(near(load().forward(x_.contiguous(at::MemoryFormat::ChannelsLast)), reference(), kGroupSize));
}

TEST_F(GroupNormTest, SiluOfIt) {
  at::Tensor want = reference();
  want = want * at::sigmoid(want);
  EXPECT_TRUE(near(load().forward_silu(x_), want, kGroupSize));
  EXPECT_TRUE(near(load().forward_silu(x_.contiguous(at::MemoryFormat::ChannelsLast)), want, kGroupSize));
}

TEST_F(GroupNormTest, LeavesItsInputAlone) {
  at::Tensor before = x_.clone();
  load().forward_silu(x_);
  EXPECT_TRUE(x_.equal(before));
}

TEST_F(GroupNormTest, Bfloat16) {
  at::Tensor want = reference();
  want = want * at::sigmoid(want);
  EXPECT_TRUE(near(load(at::kBFloat16).forward_silu(x_.to(at::kBFloat16)), want, 1, 0x1p-9));
}

}  // namespace
}  // namespace quaver::nn
