// Weights in host memory that come to the device in two slots. The device is the CPU here: what is copied
// when, and that nothing changes a bit, are the same there; streams are not.
#include "nn/offload.h"

#include <ATen/ops/arange.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

#include "nn/device_quant_weight.h"
#include "nn/linear.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

int64_t add_one(LayerOffload& layers, at::Tensor& tensor) {
  return layers.add([&](const TensorVisit& visit) { visit(tensor); });
}

// Layers of one tensor each, whose values are those of `made`.
struct Single {
  explicit Single(size_t count, int64_t width = 5) : tensors(count) {
    for (size_t i = 0; i < count; ++i) {
      made.push_back(randn({3, width + 40 * static_cast<int64_t>(i)}, i + 1));
      tensors[i] = made[i].clone();
      EXPECT_EQ(add_one(layers, tensors[i]), static_cast<int64_t>(i));
    }
  }
  void expect_used(size_t layer) {
    const LayerOffload::Use use = layers.use(static_cast<int64_t>(layer));
    EXPECT_TRUE(tensors[layer].equal(made[layer])) << layer;
  }

  LayerOffload layers{at::kCPU};
  std::vector<at::Tensor> made, tensors;
};

TEST(LayerOffload, LayersThatAreNotUsedHaveShapesAlone) {
  Single model(4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(model.tensors[i].is_meta());
    EXPECT_EQ(model.tensors[i].sizes(), model.made[i].sizes());
    EXPECT_EQ(model.tensors[i].scalar_type(), at::kFloat);
  }
  model.expect_used(0);
  EXPECT_TRUE(model.tensors[2].is_meta());
  EXPECT_TRUE(model.tensors[3].is_meta());
  model.layers.release();
  for (const at::Tensor& tensor : model.tensors) EXPECT_TRUE(tensor.is_meta());
  model.expect_used(0);
}

TEST(LayerOffload, TheNextLayerIsCopiedAheadAndNoneTwice) {
  Single model(3);
  model.expect_used(0);
  EXPECT_EQ(model.layers.copies(), 2);  // itself and the next
  for (size_t step = 0; step < 3; ++step)
    for (size_t layer = step == 0 ? 1 : 0; layer < 3; ++layer) model.expect_used(layer);
  EXPECT_EQ(model.layers.copies(), 10);  // nine uses and one ahead
}

TEST(LayerOffload, WhatFitsTheSlotsStays) {
  Single one(1), two(2);
  for (int step = 0; step < 3; ++step) {
    one.expect_used(0);
    two.expect_used(0), two.expect_used(1);
  }
  EXPECT_EQ(one.layers.copies(), 1);
  EXPECT_EQ(two.layers.copies(), 2);
}

// A step cache runs the first layer alone, many times.
TEST(LayerOffload, AnyOrderIsRight) {
  Single model(5);
  for (size_t layer : {0, 0, 0, 1, 2, 0, 4, 4, 2, 3, 0, 1}) model.expect_used(layer);
  Single repeated(5);
  for (int step = 0; step < 4; ++step) repeated.expect_used(0);
  EXPECT_EQ(repeated.layers.copies(), 2);
}

TEST(LayerOffload, KeepsStridesTypesAndManyTensorsOfALayer) {
  at::Tensor picture = randn({8, 4, 3, 3}, 1).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor whole = at::arange(7, at::kLong), half = randn({5, 3}, 2).to(at::kHalf);
  const at::Tensor was = picture.clone(), was_whole = whole.clone(), was_half = half.clone();
  LayerOffload layers(at::kCPU);
  layers.add([&](const TensorVisit& visit) { visit(picture), visit(whole), visit(half); });
  at::Tensor other = randn({2}, 3);
  add_one(layers, other);
  EXPECT_EQ(layers.host_bytes(), 1280u + 256 + 256 + 256);  // each on its own 256 bytes
  EXPECT_EQ(layers.device_bytes(), 2 * (1280u + 256 + 256));
  const LayerOffload::Use use = layers.use(0);
  EXPECT_TRUE(picture.equal(was) && whole.equal(was_whole) && half.equal(was_half));
  EXPECT_EQ(picture.strides(), was.strides());
}

// What has gaps would come back without them.
TEST(LayerOffload, RefusesTensorsWithGaps) {
  at::Tensor gaps = randn({4, 6}, 1).slice(1, 0, 6, 2);
  LayerOffload layers(at::kCPU);
  EXPECT_EQ(thrown_by([&] { add_one(layers, gaps); }).kind(), ErrorKind::kInternal);
}

TEST(LayerOffload, WorksAcrossInferenceMode) {
  Single model(3);
  {
    c10::InferenceMode inference;
    model.expect_used(0), model.expect_used(1);
  }
  model.expect_used(2), model.expect_used(0);
}

TEST(LayerOffload, AUseKeepsOtherThreadsWaiting) {
  Single model(4, 20'000);
  const auto work = [&](size_t first) {
    for (size_t i = 0; i < 200; ++i) model.expect_used((first + i) % 4);
  };
  std::thread other(work, 2);
  work(0);
  other.join();
}

TEST(LinearTensors, APlainWeightIsShownAndMayMove) {
  Linear layer = Linear::plain(randn({6, 8}, 1).to(at::kBFloat16), randn({6}, 2).to(at::kBFloat16));
  const at::Tensor x = randn({3, 8}, 3).to(at::kBFloat16), want = layer.forward(x);
  LayerOffload layers(at::kCPU);
  layers.add([&](const TensorVisit& visit) { layer.visit_tensors(visit); });
  EXPECT_EQ(layers.host_bytes(), 256u);  // the bias stays
  const LayerOffload::Use use = layers.use(0);
  EXPECT_TRUE(layer.forward(x).equal(want));
}

TEST(LinearTensors, AQuantizedWeightOnADeviceShowsAllItsTensors) {
  for (const bool zeros : {false, true})
    for (const bool permuted : {false, true}) {
      auto weight = std::make_shared<QuantWeight>(
          random_quant_weight(24, 96, {.zeros = zeros, .permuted = permuted}, 5));
      DeviceQuantWeight held(*weight, at::kCPU);
      const at::Tensor want = held.dense(at::kFloat);
      LayerOffload layers(at::kCPU);
      layers.add([&](const TensorVisit& visit) { held.visit_tensors(visit); });
      {
        const LayerOffload::Use use = layers.use(0);
        EXPECT_TRUE(held.dense(at::kFloat).equal(want));
      }
      Linear layer = Linear::quantized(weight, std::nullopt, at::kBFloat16, at::kMeta);
      layer.keep_kernel_layout_only();
      size_t shown = 0;
      layer.visit_tensors([&](at::Tensor& tensor) { shown += tensor.nbytes(); });
      EXPECT_EQ(shown, layer.size_bytes());
    }
}

}  // namespace
}  // namespace quaver::nn
