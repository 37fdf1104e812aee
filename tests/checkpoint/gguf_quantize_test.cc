// Values become the bytes that the gguf package and ggml's reference quantizers make of them.
#include "checkpoint/gguf_quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using ::testing::HasSubstr;

const SafetensorsFile& quantized_blocks() {
  static const SafetensorsFile file = SafetensorsFile::open(std::filesystem::path(QUAVER_TEST_DATA) /
                                                            "golden/checkpoint/gguf_quantized.safetensors");
  return file;
}

class GgufQuantize : public ::testing::TestWithParam<DType> {};

TEST_P(GgufQuantize, GivesTheReferencesBytes) {
  const TensorView view = quantized_blocks().read("values");
  const std::string name(dtype_info(GetParam()).name);
  const Buffer expected = quantized_blocks().read(name + ".blocks").data;
  const Buffer got = gguf_quantize(GetParam(), view.data.as<float>(), "values");
  ASSERT_EQ(got.size_bytes(), expected.size_bytes());
  for (size_t i = 0; i < got.size_bytes(); ++i)
    ASSERT_EQ(std::to_integer<int>(got.bytes()[i]), std::to_integer<int>(expected.bytes()[i]))
        << "byte " << i << ", block " << i / static_cast<size_t>(dtype_info(GetParam()).block_bytes);
}

INSTANTIATE_TEST_SUITE_P(Types, GgufQuantize,
                         ::testing::Values(DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                                           DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
                                           DType::kQ5_K, DType::kQ6_K),
                         [](const auto& row) { return std::string(dtype_info(row.param).name); });

// Steps that are no normal numbers, or none at all, leave finite values.
TEST(GgufQuantizeEdges, TinyValuesBecomeFinite) {
  for (DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
                     DType::kQ5_K, DType::kQ6_K})
    for (float size : {0.0f, 1e-45f, 1e-39f, 1e-30f, 1e-7f, 65504.0f}) {
      std::vector<float> values(256), back(256);
      for (size_t i = 0; i < values.size(); ++i) values[i] = size * (i % 2 == 0 ? 1.0f : -0.5f);
      gguf_dequantize(type, gguf_quantize(type, values, "values").bytes(), back);
      for (size_t i = 0; i < back.size(); ++i)
        ASSERT_LE(std::abs(back[i] - values[i]), 0.1f * size + 1e-6f) << dtype_info(type).name << " " << size;
    }
}

TEST(GgufQuantizeEdges, NumbersThatDontFitAreRefused) {
  std::vector<float> values(256, 1.0f);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  auto caught = testing::catch_error([&] { gguf_quantize(DType::kQ4_K, values, "m.gguf: tensor 'a'"); });
  EXPECT_EQ(caught.kind, ErrorKind::kNonFinite);
  EXPECT_THAT(caught.message, HasSubstr("m.gguf: tensor 'a': value 7"));
  values[7] = 1e6f;
  caught = testing::catch_error([&] { gguf_quantize(DType::kF16, values, "x"); });
  EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput);
  EXPECT_THAT(caught.message, HasSubstr("65504"));
  gguf_quantize(DType::kBF16, values, "x");
}

}  // namespace
}  // namespace quaver
