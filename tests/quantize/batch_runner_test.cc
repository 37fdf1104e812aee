// Slices of a batch give what the whole batch gives, outputs and gradients.
#include "quantize/batch_runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/error.h"

namespace quaver::quantize {
namespace {

// y = x A, and x B on rows whose first element is positive: as an expert that sees some sequences only.
class TwoWeights : public models::DecoderBlock {
 public:
  at::Tensor forward(const at::Tensor& hidden, const models::StepContext& step) const override {
    EXPECT_EQ(step.positions.size(0), hidden.size(0));
    at::Tensor y = at::matmul(hidden, a);
    return hidden[0][0].item<double>() > 0 ? y + at::matmul(hidden, b) : y;
  }
  std::vector<NamedLinear> linears() override { return {}; }
  void prepare() const override {}

  at::Tensor a, b;
};

TwoWeights two_weights() {
  TwoWeights block;
  block.a = at::randn({4, 4}, at::kDouble).requires_grad_();
  block.b = at::randn({4, 4}, at::kDouble).requires_grad_();
  return block;
}

std::vector<int64_t> first_rows(int64_t n) {
  std::vector<int64_t> which(static_cast<size_t>(n));
  std::iota(which.begin(), which.end(), 0);
  return which;
}

at::Tensor ones(const at::Tensor& output, std::span<const int64_t>, int64_t) { return at::ones_like(output); }

TEST(BatchRunner, SlicesJoinToTheWholeBatch) {
  TwoWeights block = two_weights();
  at::Tensor rows = at::randn({8, 3, 4}, at::kDouble).abs(), y = at::zeros_like(rows);
  BatchRunner runner(block, 3, at::kCPU);
  std::vector<int64_t> which = {6, 1, 2, 7, 0};
  runner.forward(rows, which, [&](const at::Tensor& output, std::span<const int64_t> part, int64_t) {
    EXPECT_FALSE(output.requires_grad());
    for (size_t i = 0; i < part.size(); ++i) y[part[i]].copy_(output[static_cast<int64_t>(i)]);
  });
  for (int64_t i = 0; i < 8; ++i) {
    bool chosen = std::find(which.begin(), which.end(), i) != which.end();
    models::StepContext step{.positions = at::arange(3), .attention = nullptr};
    at::Tensor expected = chosen ? block.forward(rows[i], step) : at::zeros_like(rows[i]);
    EXPECT_TRUE(y[i].allclose(expected, 1e-12, 1e-12)) << i;
  }
}

TEST(BatchRunner, GradientsAreSummedOverTheBatch) {
  TwoWeights block = two_weights();
  at::Tensor rows = at::randn({6, 3, 4}, at::kDouble).abs();
  BatchRunner runner(block, 3, at::kCPU);
  std::vector<at::Tensor> gradients = runner.gradients(rows, first_rows(6), {block.a, block.b}, ones);
  at::Tensor expected = rows.sum(at::IntArrayRef{0, 1}).unsqueeze(1).expand({4, 4});  // d sum(x A) / dA
  EXPECT_TRUE(gradients[0].allclose(expected, 1e-12, 1e-12));
  EXPECT_TRUE(gradients[1].allclose(expected, 1e-12, 1e-12));
  EXPECT_FALSE(block.a.grad().defined());
}

TEST(BatchRunner, AWeightThatNoRowUsesHasNoGradient) {
  TwoWeights block = two_weights();
  at::Tensor rows = -at::randn({6, 3, 4}, at::kDouble).abs();
  BatchRunner runner(block, 3, at::kCPU);
  EXPECT_FALSE(runner.gradients(rows, first_rows(6), {block.a, block.b}, ones)[1].defined());
}

TEST(BatchRunner, SlicesCoverTheBatchOnce) {
  TwoWeights block = two_weights();
  BatchRunner runner(block, 3, at::kCPU);
  at::Tensor rows = at::randn({7, 3, 4}, at::kDouble);
  std::atomic<int64_t> covered{0}, slices{0};
  auto count = [&](const at::Tensor&, std::span<const int64_t> which, int64_t) {
    for (int64_t row : which) covered += int64_t{1} << (8 * row);
    ++slices;
  };
  runner.forward(rows, first_rows(7), count);
  EXPECT_EQ(covered, 0x01010101010101);
  EXPECT_EQ(slices, runner.num_slices(7));
  slices = 0;
  runner.observe(nullptr, nullptr);
  runner.forward(rows, first_rows(7), count);
  EXPECT_EQ(slices, 1);
}

TEST(BatchRunner, AnErrorOnOneThreadReachesTheCaller) {
  TwoWeights block = two_weights();
  BatchRunner runner(block, 3, at::kCPU);
  auto fail = [](const at::Tensor& output, std::span<const int64_t> which, int64_t) -> at::Tensor {
    require(which.front() == 0, ErrorKind::kNonFinite, "not finite");
    return output;
  };
  EXPECT_THROW(runner.gradients(at::randn({4, 3, 4}, at::kDouble), first_rows(4), {block.a}, fail), Error);
}

}  // namespace
}  // namespace quaver::quantize
