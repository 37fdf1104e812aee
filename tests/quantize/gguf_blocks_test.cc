// Quantized weights keep their codes in blocks that can hold them, and it is told what became of the values.
#include "quantize/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/gguf_dequantize.h"

namespace quaver::quantize {
namespace {

// [2, 64]; codes go round all values of the element.
QuantWeight coded(Element element, int64_t group, std::vector<float> scales) {
  QuantWeight weight{.element = element, .shape = {2, 64}, .group = {1, group}};
  const int bits = element_info(element).bits;
  std::vector<uint8_t> bytes(static_cast<size_t>(2 * weight.row_bytes()));
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t col = 0; col < 64; ++col)
      for (int b = 0; b < bits; ++b)
        if ((row * 37 + col * 3) >> b & 1)
          bytes[static_cast<size_t>(row * weight.row_bytes() + (col * bits + b) / 8)] |=
              static_cast<uint8_t>(1 << ((col * bits + b) % 8));
  weight.codes = Buffer::copy_of(bytes);
  weight.scale.data = Buffer::copy_of(scales);
  return weight;
}

std::vector<float> back(const GgufBlocks& blocks, DType type) {
  std::vector<float> values(128);
  gguf_dequantize(type, blocks.bytes.bytes(), values);
  return values;
}

void expect_same(const QuantWeight& weight, DType type) {
  const GgufBlocks blocks = to_gguf_blocks(weight, type, "w");
  EXPECT_EQ(blocks.fate, ValueFate::kSame);
  EXPECT_EQ(back(blocks, type), dequantize(weight));
}

TEST(GgufBlocksTest, SymmetricCodesStay) {
  expect_same(coded(Element::kInt4, 32, {0.5f, -0.25f, 0.125f, 3.0f}), DType::kQ4_0);
  expect_same(coded(Element::kInt4, 64, {0.5f, 0.25f}), DType::kQ4_0);
  expect_same(coded(Element::kInt2, 32, {0.5f, 0.25f, 0.125f, 3.0f}), DType::kQ4_0);
  expect_same(coded(Element::kInt3, 64, {0.5f, 0.25f}), DType::kQ4_0);
  expect_same(coded(Element::kInt8, 32, {0.5f, 0.25f, 0.125f, 3.0f}), DType::kQ8_0);
  expect_same(coded(Element::kInt4, 32, {0.5f, 0.25f, 0.125f, 3.0f}), DType::kQ8_0);
}

TEST(GgufBlocksTest, ZeroPointsBecomeMinima) {
  QuantWeight weight = coded(Element::kInt4, 32, {0.5f, 0.25f, 0.125f, 3.0f});
  weight.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>{0, 3, 8, 15})};
  expect_same(weight, DType::kQ4_1);
  expect_same(weight, DType::kQ8_0);
  weight.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>{8, 8, 8, 8})};
  expect_same(weight, DType::kQ4_0);
  weight.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>{8, 8, 9, 8})};
  EXPECT_EQ(to_gguf_blocks(weight, DType::kQ4_0, "w").fate, ValueFate::kRounded);
}

TEST(GgufBlocksTest, NumbersThatRoundKeepTheirCodes) {
  // 2049 / 2048 needs 12 bits; times 3, so does a scale of 11 bits.
  const QuantWeight scale = coded(Element::kInt4, 64, {2049.0f / 2048, 0.25f});
  const GgufBlocks rounded = to_gguf_blocks(scale, DType::kQ4_0, "w");
  EXPECT_EQ(rounded.fate, ValueFate::kCodes);
  const std::vector<float> got = back(rounded, DType::kQ4_0), wanted = dequantize(scale);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0x1p-11f * std::abs(wanted[i]));
  QuantWeight zeros = coded(Element::kInt4, 64, {1.0f + 0x1p-10f, 0.25f});
  zeros.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>{3, 3})};
  EXPECT_EQ(to_gguf_blocks(zeros, DType::kQ4_1, "w").fate, ValueFate::kCodes);
}

TEST(GgufBlocksTest, OthersAreRoundedAnew) {
  QuantWeight narrow = coded(Element::kInt4, 16, std::vector<float>{0.5f, 0.25f, 0.125f, 3, 1, 2, 3, 4});
  EXPECT_EQ(to_gguf_blocks(narrow, DType::kQ4_0, "w").fate, ValueFate::kRounded);
  QuantWeight tiny = coded(Element::kInt4, 64, {1e-9f, 1e-9f});  // no half precision number is near
  EXPECT_EQ(to_gguf_blocks(tiny, DType::kQ4_0, "w").fate, ValueFate::kRounded);
  QuantWeight ordered = coded(Element::kInt4, 32, {0.5f, 0.25f, 0.125f, 3.0f});
  for (int32_t i = 0; i < 64; ++i) ordered.permutation.push_back(i * 2 % 64 + i / 32);
  EXPECT_EQ(to_gguf_blocks(ordered, DType::kQ4_0, "w").fate, ValueFate::kRounded);
  EXPECT_EQ(to_gguf_blocks(coded(Element::kInt8, 32, {1, 1, 1, 1}), DType::kQ4_0, "w").fate,
            ValueFate::kRounded);
}

TEST(GgufBlocksTest, PlainValuesAreCompared) {
  std::vector<float> values(64, 0.5f);
  EXPECT_EQ(to_gguf_blocks(values, DType::kF16, "w").fate, ValueFate::kSame);
  values[3] = 1.0001f;
  EXPECT_EQ(to_gguf_blocks(values, DType::kF32, "w").fate, ValueFate::kSame);
  EXPECT_EQ(to_gguf_blocks(values, DType::kF16, "w").fate, ValueFate::kRounded);
}

}  // namespace
}  // namespace quaver::quantize
