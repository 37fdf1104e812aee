// Block types against the gguf package, bit for bit, on random blocks and on blocks of real files.
#include "checkpoint/gguf_dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

const SafetensorsFile& golden_blocks() {
  static const SafetensorsFile file = SafetensorsFile::open(std::filesystem::path(QUAVER_TEST_DATA) /
                                                            "golden/checkpoint/gguf_blocks.safetensors");
  return file;
}

std::vector<std::string> golden_names(std::string_view ending) {
  std::vector<std::string> names;
  for (const auto& entry : golden_blocks().entries())
    if (entry.info.name.ends_with(ending))
      names.push_back(entry.info.name.substr(0, entry.info.name.size() - ending.size()));
  return names;
}

DType dtype_named(std::string_view name) {
  for (const DTypeInfo& row : kDTypes)
    if (row.name == name) return row.dtype;
  ADD_FAILURE() << "no dtype " << name;
  return DType::kF32;
}

class GgufDequantize : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufDequantize, EqualsTheGgufPackageBitForBit) {
  std::string type = GetParam().substr(0, GetParam().find('.'));
  TensorView blocks = golden_blocks().read(GetParam() + ".blocks"),
             values = golden_blocks().read(GetParam() + ".values");
  auto expected = values.data.as<float>();
  std::vector<float> got(expected.size());
  gguf_dequantize(dtype_named(type), blocks.data.bytes(), got);
  size_t finite = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    bool both_nan = std::isnan(got[i]) && std::isnan(expected[i]);
    ASSERT_TRUE(both_nan || std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(expected[i]))
        << i << ": " << got[i] << " instead of " << expected[i];
    finite += std::isfinite(got[i]);
  }
  EXPECT_GT(finite, got.size() / 2);
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, GgufDequantize, ::testing::ValuesIn(golden_names(".blocks")),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(GgufDequantizeTable, GoldenDataCoversEveryRow) {
  auto names = golden_names(".blocks");
  for (const DTypeInfo& row : kDTypes) {
    bool covered = std::find(names.begin(), names.end(), row.name) != names.end();
    EXPECT_EQ(covered, can_dequantize_gguf(row.dtype)) << row.name;
  }
  EXPECT_EQ(std::count_if(kDTypes.begin(), kDTypes.end(),
                          [](const auto& row) { return can_dequantize_gguf(row.dtype); }),
            16);
}

TEST(GgufDequantizeTable, LongTensorsAreSplitAmongThreads) {
  std::vector<uint16_t> halves(300001);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i % 31744);
  auto values = gguf_dequantize(TensorView{DType::kF16, {300001}, Buffer::copy_of(halves)});
  for (size_t i = 0; i < halves.size(); i += 997)
    ASSERT_EQ(values[i], static_cast<float>(std::bit_cast<_Float16>(halves[i])));
}

TEST(GgufDequantizeTable, RefusesOtherTypesAndPartialBlocks) {
  std::vector<std::byte> bytes(36);
  std::vector<float> values(64);
  EXPECT_EQ(testing::catch_error([&] { gguf_dequantize(DType::kI8, bytes, values); }).kind,
            ErrorKind::kUnsupported);
  EXPECT_EQ(testing::catch_error([&] { gguf_dequantize(DType::kQ8_0, bytes, values); }).kind,
            ErrorKind::kInternal);
  gguf_dequantize(DType::kQ4_0, bytes, values);
}

}  // namespace
}  // namespace quaver
