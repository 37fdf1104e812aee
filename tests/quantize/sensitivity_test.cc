// The predicted divergence against the one measured by rounding a layer for good.
#include "quantize/sensitivity.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include "nn/attention_context.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kHidden = 64, kVocabulary = 96, kRows = 16, kTokens = 64;

// y = x + tanh(x W^T): no attention, so that positions are independent as the estimate takes them to be.
class OneLinear : public models::DecoderBlock {
 public:
  explicit OneLinear(const at::Tensor& weight) : linear_(nn::Linear::plain(weight, std::nullopt)) {}
  at::Tensor forward(const at::Tensor& hidden, const models::StepContext&) const override {
    return hidden + at::tanh(linear_.forward(hidden));
  }
  std::vector<NamedLinear> linears() override { return {{"proj", &linear_, 0}}; }
  void prepare() const override {}

 private:
  nn::Linear linear_;
};

class TwoBlocks : public models::CausalLm {
 public:
  TwoBlocks() {
    info_ = {.family = "two", .num_layers = 2, .hidden_size = kHidden, .vocab_size = kVocabulary};
    info_.blocks_prefix = "blocks";
    at::Generator random = at::make_generator<at::CPUGeneratorImpl>(7);
    const auto draw = [&](int64_t rows, int64_t cols, double scale) {
      return at::randn({rows, cols}, random, at::kFloat) * scale;
    };
    table = draw(kVocabulary, kHidden, 1), head_ = draw(kVocabulary, kHidden, 0.2);
    weights = {draw(kHidden, kHidden, 0.1), draw(kHidden, kHidden, 0.1)};
  }
  const models::CausalLmInfo& info() const override { return info_; }
  at::Tensor embed(const at::Tensor& ids) const override { return at::index_select(table, 0, ids); }
  at::Tensor logits(const at::Tensor& hidden) const override { return at::matmul(hidden, head_.t()); }
  std::unique_ptr<models::DecoderBlock> make_block(int64_t index, nn::WeightSource&) const override {
    return block_of(index);
  }
  std::unique_ptr<models::DecoderBlock> make_head(nn::WeightSource&) const override { return nullptr; }
  nn::Linear* head() override { return nullptr; }
  void prepare_head() const override {}

  std::unique_ptr<models::DecoderBlock> block_of(int64_t index) const {
    return std::make_unique<OneLinear>(weights[static_cast<size_t>(index)]);
  }
  at::Tensor log_shares(const at::Tensor& tokens) const {
    at::Tensor hidden = embed(tokens.flatten());
    for (int64_t i = 0; i < 2; ++i) hidden = block_of(i)->forward(hidden, {});
    return at::log_softmax(logits(hidden).to(at::kDouble), -1);
  }

  at::Tensor table;
  std::vector<at::Tensor> weights;

 private:
  models::CausalLmInfo info_;
  at::Tensor head_;
};

SensitivityProblem problem_of(const TwoBlocks& model, std::vector<const char*> schemes) {
  SensitivityProblem problem{
      .shell = model,
      .load_block = [&model](int64_t index) { return model.block_of(index); },
      .tokens = (at::arange(kRows * kTokens) * 37 % kVocabulary).view({kRows, kTokens}),
      .rounding = RoundingMethod::kPlain};
  for (const char* name : schemes) problem.schemes.push_back(scheme_from_name(name));
  return problem;
}

double measured(const SensitivityProblem& problem, int64_t block, const Scheme& scheme) {
  at::NoGradGuard no_grad;
  TwoBlocks model;  // the same weights again
  const at::Tensor before = model.log_shares(problem.tokens);
  const auto original = model.block_of(block);
  const TunedLayer layer{.layer = original->linears().front(), .scheme = scheme};
  auto quant = std::make_shared<QuantWeight>(round_layer(layer, problem.rounding, "w"));
  model.weights[static_cast<size_t>(block)] =
      nn::Linear::quantized(std::move(quant), std::nullopt, at::kFloat, at::kCPU).dense_weight();
  const at::Tensor after = model.log_shares(problem.tokens);
  return ((before - after) * before.exp()).sum(-1).mean().item<double>();
}

// 1024 answers are drawn, so that the estimate of a variance is off by sqrt(2 / 1024) of itself, 4.4 %, for
// normal changes; four times that.
TEST(Sensitivity, PredictsTheDivergence) {
  const TwoBlocks model;
  const SensitivityProblem problem = problem_of(model, {"W3A16", "W4A16"});
  const auto predicted = measure_sensitivity(problem, null_progress());
  ASSERT_EQ(predicted.size(), 2u);
  for (int64_t block = 0; block < 2; ++block)
    for (size_t i = 0; i < 2; ++i) {
      const double wanted = measured(problem, block, problem.schemes[i]);
      EXPECT_NEAR(predicted.at(cat("blocks.", block, ".proj")).at(i) / wanted, 1, 0.18) << block << " " << i;
    }
}

// Rows run on several threads; their number and their order must not show.
TEST(Sensitivity, TheSameEachTime) {
  const TwoBlocks model;
  const SensitivityProblem problem = problem_of(model, {"W4A16", "FP8_TENSOR"});
  EXPECT_EQ(measure_sensitivity(problem, null_progress()), measure_sensitivity(problem, null_progress()));
}

TEST(Sensitivity, QuantizedInputsCountAndSixteenBitsLoseNothing) {
  const TwoBlocks model;
  const auto predicted =
      measure_sensitivity(problem_of(model, {"BF16", "FPW8A16", "FP8_TENSOR"}), null_progress());
  for (const auto& [layer, losses] : predicted) {
    EXPECT_EQ(losses[0], 0) << layer;
    EXPECT_GT(losses[2], 1.3 * losses[1]) << layer;  // rounded alike, the input in the second alone
  }
}

}  // namespace
}  // namespace quaver::quantize
