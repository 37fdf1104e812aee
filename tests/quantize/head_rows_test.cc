// The positions that the head is tuned on.
#include "quantize/head_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

namespace quaver::quantize {
namespace {

TEST(HeadRows, LogitsOfABatchAreBounded) {
  EXPECT_EQ(head_positions(384, 8, 2048), 2048);
  EXPECT_EQ(head_positions(131072, 8, 2048), 64);
  EXPECT_EQ(head_positions(int64_t{1} << 26, 8, 2048), 2);
  EXPECT_EQ(head_positions(384, 8, 1), 1);
}

TEST(HeadRows, PositionsAreDrawnOnceAndTheSameForBothChains) {
  const Activations rows{at::arange(3 * 50 * 4).view({3, 50, 4})};
  const at::Tensor drawn = drawn_positions(rows, 10, 1).rows;
  ASSERT_EQ(drawn.sizes().vec(), (std::vector<int64_t>{3, 10, 4}));
  EXPECT_TRUE(at::equal(drawn, drawn_positions(rows, 10, 1).rows));
  EXPECT_FALSE(at::equal(drawn, drawn_positions(rows, 10, 2).rows));
  const at::Tensor first = drawn.select(2, 0);
  EXPECT_TRUE((first.diff() > 0).all().item<bool>());  // in order, none twice
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_GE(first[row][0].item<int64_t>(), row * 200);
    EXPECT_LT(first[row][9].item<int64_t>(), (row + 1) * 200);
  }
  EXPECT_TRUE(at::equal(drawn.select(2, 3), first + 3));  // whole positions
  EXPECT_TRUE(at::equal(drawn_positions(rows, 50, 1).rows, rows.rows));
}

}  // namespace
}  // namespace quaver::quantize
