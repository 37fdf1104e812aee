// GGUF's blocks as quantized weights: the values of the gguf package, whatever the type.
#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/gguf_block.h"
#include "checkpoint/safetensors_file.h"
#include "formats/format_checks.h"
#include "formats/memory_checkpoint.h"
#include "numerics/half.h"

namespace quaver {
namespace {

using ::testing::HasSubstr;

const SafetensorsFile& golden() {
  static const SafetensorsFile file = SafetensorsFile::open(std::filesystem::path(QUAVER_TEST_DATA) /
                                                            "golden/checkpoint/gguf_blocks.safetensors");
  return file;
}

QuantWeight unpack_rows(DType type, std::span<const std::byte> blocks, int64_t rows, int64_t cols) {
  MemoryCheckpoint checkpoint(json::object());
  checkpoint.add("a.weight", {type, {rows, cols}, Buffer::copy_of(blocks)});
  EXPECT_TRUE(kGgufFormat.detect(checkpoint));
  return kGgufFormat.unpack(kGgufFormat.plan(checkpoint, "a"), checkpoint);
}

class GgufRow : public ::testing::TestWithParam<DType> {};

// The random blocks hold every half precision number and every power: those that are none are refused.
TEST_P(GgufRow, BlocksHaveTheirValuesOrAreRefused) {
  const DTypeInfo& info = dtype_info(GetParam());
  const TensorView blocks = golden().read(cat(info.name, ".blocks")),
                   values = golden().read(cat(info.name, ".values"));
  const auto expected = values.data.as<float>();
  const auto elements = static_cast<size_t>(info.block_elements),
             block_bytes = static_cast<size_t>(info.block_bytes);
  size_t equal = 0, refused = 0;
  for (size_t b = 0; b * elements < expected.size(); ++b) {
    const auto block = blocks.data.bytes().subspan(b * block_bytes, block_bytes);
    const auto wanted = expected.subspan(b * elements, elements);
    const bool is_power = info.dtype == DType::kMXFP4;
    const bool no_number = is_power ? block[0] == std::byte{255}
                                    : !std::ranges::all_of(wanted, [](float v) { return std::isfinite(v); });
    if (no_number) {
      EXPECT_THROW(unpack_rows(info.dtype, block, 1, info.block_elements), Error);
      ++refused;
      continue;
    }
    const QuantWeight weight = unpack_rows(info.dtype, block, 1, info.block_elements);
    const std::vector<float> got = dequantize(weight);
    for (size_t i = 0; i < elements; ++i) ASSERT_EQ(got[i], wanted[i]) << "block " << b << ", " << i;
    EXPECT_LE(weight.size_bytes(), block_bytes * 5 / 4) << "a small scale takes a byte";
    ++equal;
  }
  EXPECT_GT(equal, refused);
}

std::vector<DType> block_types() {
  std::vector<DType> types;
  for (const DTypeInfo& info : kDTypes)
    if (gguf_block_form(info.dtype)) types.push_back(info.dtype);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Formats, GgufRow, ::testing::ValuesIn(block_types()),
                         [](const auto& row) { return std::string(dtype_info(row.param).name); });

std::vector<std::byte> q8_block(float scale, int8_t code) {
  std::vector<std::byte> block(34, static_cast<std::byte>(code));
  const uint16_t bits = float_to_f16(scale);
  std::memcpy(block.data(), &bits, 2);
  return block;
}

TEST(GgufRowOf, RowsAndGroupsStayInOrder) {
  std::vector<std::byte> blocks;
  for (int i = 0; i < 6; ++i)
    std::ranges::copy(q8_block(1.0f + static_cast<float>(i), 1), std::back_inserter(blocks));
  const QuantWeight weight = unpack_rows(DType::kQ8_0, blocks, 3, 64);
  const std::vector<float> values = dequantize(weight);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 1.0f + static_cast<float>(i / 32));
}

TEST(GgufRowOf, CodesUnderAScaleOfZeroAreZero) {
  const std::vector<float> values = dequantize(unpack_rows(DType::kQ8_0, q8_block(0.0f, 5), 1, 32));
  EXPECT_THAT(values, ::testing::Each(0.0f));
}

TEST(GgufRowOf, AnInfiniteScaleIsRefusedByTensor) {
  EXPECT_THAT(error_of([] { unpack_rows(DType::kQ8_0, q8_block(INFINITY, 5), 1, 32); }),
              AllOf(HasSubstr("tensor 'a.weight'"), HasSubstr("not finite")));
}

TEST(GgufRowOf, PlainTensorsAndVectorsAreNoLayers) {
  MemoryCheckpoint checkpoint(json::object());
  checkpoint.add("norm.weight", {DType::kQ8_0, {32}, Buffer::copy_of(q8_block(1, 1))})
      .add("b.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  EXPECT_FALSE(kGgufFormat.detect(checkpoint));
  EXPECT_TRUE(kGgufFormat.plan(checkpoint, "b").tensors.empty());
}

TEST(GgufRowOf, AMatrixOfNothingIsRefused) {
  EXPECT_THAT(error_of([] { unpack_rows(DType::kQ8_0, {}, 0, 32); }), HasSubstr("holds nothing"));
}

TEST(GgufRowOf, OtherShapesAreRefused) {
  MemoryCheckpoint checkpoint(json::object());
  checkpoint.add("a.weight", {DType::kQ8_0, {1, 32}, Buffer::copy_of(q8_block(1, 1))});
  LayerPlan plan = kGgufFormat.plan(checkpoint, "a");
  plan.shape = {2, 32};
  EXPECT_THAT(error_of([&] { kGgufFormat.unpack(plan, checkpoint); }),
              AllOf(HasSubstr("shape [1, 32]"), HasSubstr("expected [2, 32]")));
}

}  // namespace
}  // namespace quaver
