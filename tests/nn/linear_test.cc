// The linear layer over plain and quantized weights: both bodies, groups, devices' expansion, memory.
#include "nn/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/cpu_features.h"
#include "nn/device_quant_weight.h"
#include "nn/kernel_path.h"
#include "nn/support.h"
#include "nn/tensor_bridge.h"
#include "numerics/element_value.h"
#include "numerics/half.h"

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

// What checkpoints hold beyond integers with a plain scale.
struct StoredKind {
  const char* name;
  Element element;
  Extent2d group;
  ScaleCodec codec;
  size_t supers = 0;     // entries of the second level
  float divisor = 0.0f;  // in its place: one number that divides
  bool mins = false, multiplier = false;
};

constexpr StoredKind kStoredKinds[] = {
    {"nvfp4", Element::kE2M1, {1, 16}, ScaleCodec::kE4M3FN, 1},
    {"nvfp4 divided", Element::kE2M1, {1, 16}, ScaleCodec::kE4M3FN, 0, 3.0f},
    {"mxfp4", Element::kE2M1, {1, 32}, ScaleCodec::kE8M0},
    {"mxfp8", Element::kE5M2, {1, 32}, ScaleCodec::kE8M0},
    {"mxfp6", Element::kE2M3, {1, 32}, ScaleCodec::kE8M0},
    {"mxfp6", Element::kE3M2, {1, 32}, ScaleCodec::kE8M0},
    {"fp8 blocks", Element::kE4M3FN, {8, 48}, ScaleCodec::kF32},
    {"fp8 tensor", Element::kE4M3FNUZ, {24, 96}, ScaleCodec::kF32},
    {"fp8 channel", Element::kE4M3FN, {1, 96}, ScaleCodec::kBF16, 0, 0.0f, false, true},
    {"nf4", Element::kNF4, {1, 64}, ScaleCodec::kF32},
    {"fp4", Element::kFP4, {1, 64}, ScaleCodec::kF16},
    {"unsigned float scales", Element::kE2M1, {1, 16}, ScaleCodec::kE5M3},
    {"signed scales", Element::kIQ4NL, {1, 32}, ScaleCodec::kI8, 24},
    {"minima", Element::kInt4, {1, 32}, ScaleCodec::kU6, 24, 0.0f, true},
    {"minima of two bits", Element::kInt2, {1, 16}, ScaleCodec::kU4, 72, 0.0f, true},
};

Scales stored_scales(const StoredKind& kind, int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::byte> bytes;
  const auto push = [&](const auto& value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
  };
  for (int64_t i = 0; i < count; ++i) {
    const float number = static_cast<float>(engine() % 99 + 1) * 0.01f;
    if (kind.codec == ScaleCodec::kF32) push(number);
    if (kind.codec == ScaleCodec::kF16) push(float_to_f16(number));
    if (kind.codec == ScaleCodec::kBF16) push(float_to_bf16(number));
    if (scale_codec_info(kind.codec).bytes > 1) continue;
    const int lowest = kind.codec == ScaleCodec::kE8M0 ? 120 : kind.codec == ScaleCodec::kE5M3 ? 96 : 1;
    push(static_cast<uint8_t>(lowest + static_cast<int>(engine() % 15)));
  }
  Scales scales = {.codec = kind.codec, .data = Buffer::copy_of(bytes)};
  if (kind.supers == 0 && kind.divisor == 0.0f) return scales;
  std::vector<float> super(kind.supers + (kind.divisor != 0.0f));
  for (float& value : super) value = 0.25f + static_cast<float>(engine() % 50) * 0.01f;
  if (kind.divisor != 0.0f) super[0] = 1.0f / kind.divisor;
  scales.super = std::make_unique<Scales>();
  scales.super->data = Buffer::copy_of(super);
  scales.super->divisor = kind.divisor;
  return scales;
}

QuantWeight stored_weight(const StoredKind& kind, Extent2d shape, uint64_t seed) {
  std::mt19937_64 engine(seed);
  QuantWeight weight{.element = kind.element, .shape = shape, .group = kind.group};
  std::vector<uint8_t> codes(static_cast<size_t>(shape.rows * weight.row_bytes()));
  for (uint8_t& code : codes) {
    code = static_cast<uint8_t>(engine());
    while (element_info(kind.element).bits == 8 && !std::isfinite(element_value(kind.element, code)))
      code = static_cast<uint8_t>(engine());
  }
  weight.codes = Buffer::copy_of(codes);
  const int64_t count = weight.num_group_rows() * weight.num_group_cols();
  weight.scale = stored_scales(kind, count, seed + 1);
  if (kind.mins) weight.offset = RealMins{stored_scales(kind, count, seed + 2)};
  for (int64_t k = 0; kind.multiplier && k < shape.cols; ++k)
    weight.input_multiplier.push_back(0.5f + 0.01f * static_cast<float>(k));
  validate(weight, kind.name);
  return weight;
}

TEST(Linear, EveryStoredKindIsMultipliedAsItIs) {
  at::Tensor x = randn({5, 96}, 1), bias = randn({kOut}, 3);
  for (const StoredKind& kind : kStoredKinds) {
    QuantWeight weight = stored_weight(kind, {kOut, 96}, 10);
    at::Tensor want = at::matmul(x.to(at::kDouble), dense_of(weight).to(at::kDouble).t()) + bias;
    Linear layer = quantized(std::move(weight), bias);
    EXPECT_NE(layer.kernel_name(), "aten") << kind.name;
    EXPECT_TRUE(layer.kernel_name() != "reference_scalar" || !cpu_features().avx2) << kind.name;
    EXPECT_TRUE(near(layer.forward(x), want, 96)) << kind.name;
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
