// The linear layer over plain and quantized weights: both bodies, groups, devices' expansion, memory.
#include "nn/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "nn/device_quant_weight.h"
#include "nn/kernel_path.h"
#include "nn/support.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {
namespace {

at::Tensor dense_of(const QuantWeight& weight) {
  TensorView view{DType::kF32, {weight.shape.rows, weight.shape.cols}, Buffer::copy_of(dequantize(weight))};
  return tensor_over(view, "test");
}

Linear quantized(QuantWeight weight, std::optional<at::Tensor> bias) {
  auto shared = std::make_shared<QuantWeight>(std::move(weight));
  Linear layer = Linear::quantized(shared, std::move(bias), at::kFloat, at::kCPU);
  layer.set_exact_activations(true);
  return layer;
}

// Every integer width, plain and awkward shapes.
std::vector<QuantOptions> all_options() {
  std::vector<QuantOptions> all;
  for (int bits = 2; bits <= 8; ++bits)
    for (bool zeros : {false, true})
      all.push_back({.bits = bits,
                     .group = bits % 2 ? 32 : 72,
                     .zeros = zeros,
                     .permuted = bits == 4,
                     .codec = bits % 3 ? ScaleCodec::kF16 : ScaleCodec::kBF16});
  return all;
}

constexpr int64_t kOut = 24, kIn = 72;  // 72 leaves a short last group of 32

TEST(Linear, PlainBodiesAgree) {
  at::Tensor x = randn({5, kIn}, 1), bias = randn({kOut}, 3);
  for (at::ScalarType stored : {at::kFloat, at::kBFloat16, at::kHalf}) {
    Linear layer = Linear::plain(randn({kOut, kIn}, 2).to(stored), bias);
    at::Tensor want = at::matmul(x.to(at::kDouble), layer.dense_weight().to(at::kDouble).t()) + bias;
    EXPECT_NE(layer.kernel_name(), "aten");
    EXPECT_TRUE(near(layer.forward(x), want, kIn)) << "kernel, stored as " << c10::toString(stored);
    AtenOnly reference;
    EXPECT_TRUE(near(layer.forward(x), want, kIn)) << "ATen, stored as " << c10::toString(stored);
  }
}

TEST(Linear, QuantizedBodiesAgree) {
  at::Tensor x = randn({5, kIn}, 1), bias = randn({kOut}, 3);
  for (const QuantOptions& options : all_options()) {
    QuantWeight weight = random_quant_weight(kOut, kIn, options, 7);
    at::Tensor want = at::matmul(x.to(at::kDouble), dense_of(weight).to(at::kDouble).t()) + bias;
    Linear layer = quantized(std::move(weight), bias);
    EXPECT_NE(layer.kernel_name(), "aten");
    EXPECT_TRUE(near(layer.forward(x), want, kIn)) << "kernel, bits " << options.bits;
    AtenOnly reference;
    EXPECT_TRUE(near(layer.forward(x), want, kIn)) << "ATen, bits " << options.bits;
  }
}

TEST(Linear, ExpansionOnDevicesEqualsDequantize) {
  for (const QuantOptions& options : all_options()) {
    QuantWeight weight = random_quant_weight(kOut, kIn, options, 8);
    ASSERT_TRUE(DeviceQuantWeight::can_expand(weight));
    DeviceQuantWeight on_device(weight, at::kCPU);
    EXPECT_TRUE(on_device.dense(at::kFloat).equal(dense_of(weight))) << "bits " << options.bits;
    EXPECT_TRUE(on_device.dense(at::kBFloat16).equal(dense_of(weight).to(at::kBFloat16)));
  }
}

TEST(Linear, GroupEqualsItsLayers) {
  c10::InferenceMode no_gradients;
  at::Tensor x = randn({3, kIn}, 1);
  Linear a = quantized(random_quant_weight(24, kIn, {}, 1), randn({24}, 2));
  Linear b = quantized(random_quant_weight(8, kIn, {}, 3), std::nullopt);
  Linear plain = Linear::plain(randn({8, kIn}, 4), std::nullopt);
  for (const std::vector<const Linear*>& layers :
       {std::vector<const Linear*>{&a, &b}, std::vector<const Linear*>{&a, &plain}}) {
    std::vector<at::Tensor> together = LinearGroup(layers).forward(x);
    for (size_t i = 0; i < layers.size(); ++i) EXPECT_TRUE(together[i].equal(layers[i]->forward(x)));
  }
}

TEST(Linear, RowsDoNotDependOnNeighbours) {
  c10::InferenceMode no_gradients;
  at::Tensor x = randn({9, kIn}, 1);
  Linear layer = quantized(random_quant_weight(kOut, kIn, {}, 5), std::nullopt);
  at::Tensor all = layer.forward(x);
  for (int64_t i = 0; i < x.size(0); ++i)
    EXPECT_TRUE(all.narrow(0, i, 1).equal(layer.forward(x.narrow(0, i, 1))));
}

TEST(Linear, TakesStridedAndEmptyRows) {
  c10::InferenceMode no_gradients;
  Linear layer = Linear::plain(randn({kOut, kIn}, 1), std::nullopt);
  at::Tensor wide = randn({4, 2 * kIn}, 2);
  EXPECT_TRUE(
      layer.forward(wide.narrow(1, kIn, kIn)).equal(layer.forward(wide.narrow(1, kIn, kIn).contiguous())));
  EXPECT_EQ(layer.forward(wide.narrow(0, 0, 0).narrow(1, 0, kIn)).sizes(), at::IntArrayRef({0, kOut}));
}

TEST(Linear, SetDenseWeightTakesOverWithGradients) {
  Linear layer = quantized(random_quant_weight(kOut, kIn, {}, 6), std::nullopt);
  at::Tensor x = randn({2, kIn}, 1);
  layer.forward(x);  // lays out for the kernel, which must not be used from now on
  at::Tensor weight = randn({kOut, kIn}, 2).requires_grad_();
  layer.set_dense_weight(weight);
  at::Tensor y = layer.forward(x);
  EXPECT_TRUE(near(y, at::matmul(x, weight.t()), kIn));
  y.sum().backward();
  EXPECT_TRUE(near(weight.grad(), x.sum(0).expand({kOut, kIn}), 2));
  EXPECT_NE(layer.quant_weight(), nullptr);
  EXPECT_EQ(thrown_by([&] { layer.set_dense_weight(randn({kIn, kOut}, 1)); }).kind(), ErrorKind::kInternal);
}

TEST(Linear, KernelLayoutOnly) {
  for (bool is_plain : {false, true}) {
    Linear layer = is_plain ? Linear::plain(randn({kOut, kIn}, 2), std::nullopt)
                            : quantized(random_quant_weight(kOut, kIn, {}, 9), std::nullopt);
    at::Tensor x = randn({2, kIn}, 1), before = layer.forward(x);
    layer.keep_kernel_layout_only();
    EXPECT_TRUE(layer.forward(x).equal(before));
    EXPECT_EQ(layer.quant_weight(), nullptr);
    EXPECT_EQ(layer.out_features(), kOut);
    EXPECT_GT(layer.size_bytes(), 0u);
    EXPECT_EQ(thrown_by([&] { layer.dense_weight(); }).kind(), ErrorKind::kInternal);
  }
}

TEST(Linear, PlainWeightIsNotCopied) {
  at::Tensor weight = randn({kOut, kIn}, 1);
  EXPECT_EQ(Linear::plain(weight, std::nullopt).dense_weight().data_ptr(), weight.data_ptr());
}

TEST(TensorBridge, BorrowsAlignedBytesAndCopiesOthers) {
  Buffer buffer = Buffer::copy_of(std::vector<float>{1, 2, 3});
  at::Tensor borrowed = tensor_over({DType::kF32, {3}, buffer}, "x");
  EXPECT_EQ(borrowed.data_ptr(), buffer.bytes().data());
  TensorView shifted{
      DType::kF16, {2}, Buffer(buffer.bytes().subspan(1, 4), std::make_shared<Buffer>(buffer))};
  EXPECT_EQ(tensor_over(shifted, "x").numel(), 2);
  EXPECT_EQ(thrown_by([&] {
              tensor_over({DType::kQ4_0, {32}, buffer}, "file: tensor x");
            }).kind(),
            ErrorKind::kBadFile);
}

}  // namespace
}  // namespace quaver::nn
