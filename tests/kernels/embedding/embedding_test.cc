// Embedding rows of every storage type.
#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include "kernels/support.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

TEST(Embedding, GathersPlainRows) {
  ThreadPool pool(2);
  const int64_t n = 11, k = 37;
  std::vector<float> values = Random(6).normals(n * k);
  std::vector<uint16_t> f16, bf16;
  for (float v : values) {
    f16.push_back(float_to_f16(v));
    bf16.push_back(float_to_bf16(v));
  }
  std::vector<int32_t> ids = {10, 0, 3, 3};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    WeightView table = {.problem = {.n = n, .k = k, .plain = dtype}};
    table.codes = dtype == DType::kF32
                      ? std::as_bytes(std::span<const float>(values))
                      : std::as_bytes(std::span<const uint16_t>(dtype == DType::kF16 ? f16 : bf16));
    std::vector<float> y(ids.size() * 40);
    gather_rows(
        {.table = table, .ids = ids, .y = y.data(), .y_stride = 40, .multiplier = 3.0f, .pool = &pool});
    for (size_t t = 0; t < ids.size(); ++t)
      for (size_t i = 0; i < k; ++i) {
        size_t at = static_cast<size_t>(ids[t]) * k + i;
        float row = dtype == DType::kF32   ? values[at]
                    : dtype == DType::kF16 ? f16_to_float(f16[at])
                                           : bf16_to_float(bf16[at]);
        ASSERT_EQ(y[t * 40 + i], row * 3.0f);
      }
  }
}

TEST(Embedding, DequantizesInThePermutedGroup) {
  // Two rows of 5 four-bit codes, groups of 2, channel order 4 3 2 1 0.
  std::vector<std::byte> codes = {std::byte{0x21}, std::byte{0x43}, std::byte{0x05},
                                  std::byte{0x98}, std::byte{0xba}, std::byte{0x0c}};
  std::vector<float> scales = {1, 10, 100, -1, -10, -100};
  std::vector<uint8_t> zeros = {0, 1, 2, 3, 4, 5};
  std::vector<int32_t> permutation = {4, 3, 2, 1, 0}, ids = {1, 0};
  WeightView table = {.problem = {.n = 2,
                                  .k = 5,
                                  .quantized = true,
                                  .element = Element::kInt4,
                                  .group = 2,
                                  .has_zeros = true,
                                  .has_permutation = true},
                      .codes = codes,
                      .scales = ScaleView::of(scales.data()),
                      .zeros = zeros.data(),
                      .permutation = permutation.data()};
  std::vector<float> y(10);
  gather_rows({.table = table, .ids = ids, .y = y.data(), .y_stride = 5});
  EXPECT_EQ(y, (std::vector<float>{-300, -50, -60, -8, -9, -100, 10, 20, 4, 5}));
  table.zeros = nullptr;
  gather_rows({.table = table, .ids = std::span(ids).last(1), .y = y.data(), .y_stride = 5});
  EXPECT_EQ(y[0], -700);  // 100 * (1 - 8)
}

}  // namespace
}  // namespace quaver::kernels
