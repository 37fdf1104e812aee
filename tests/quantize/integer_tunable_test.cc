// Fake quantization under tuning: the fused kernel against the ATen expressions, and both against plain
// facts.
#include "quantize/integer_tunable.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <tuple>

#include "quantize/qdq_aten.h"

namespace quaver::quantize {
namespace {

struct IntegerCase {
  Scheme scheme;
  int64_t in;
  at::ScalarType dtype;
};

class IntegerTunableTest : public ::testing::TestWithParam<IntegerCase> {
 protected:
  at::Tensor weight() const {
    at::manual_seed(7);
    at::Tensor w = at::randn({6, GetParam().in}) * 0.05;
    w.select(0, 0).zero_();                    // a whole row of zeros
    w.select(0, 1).abs_();                     // one sign only
    w.select(0, 2).select(0, 3).fill_(-3.0f);  // an outlier
    return w.to(GetParam().dtype);
  }
  int64_t group() const {
    return GetParam().scheme.group_size < 0 ? GetParam().in
                                            : std::min(GetParam().scheme.group_size, GetParam().in);
  }
  QdqTensors start() const {
    int64_t groups = (GetParam().in + group() - 1) / group();
    return {weight(), at::zeros({6, GetParam().in}), at::ones({6, groups}), at::ones({6, groups}), group()};
  }
};

at::Tensor restored(const QuantWeight& quant) {
  std::vector<float> values = dequantize(quant);
  return at::from_blob(values.data(), {quant.shape.rows, quant.shape.cols}).clone();
}

TEST_P(IntegerTunableTest, KernelAndExpressionsAgreeOnTheForwardPass) {
  IntegerTunable tunable(weight(), GetParam().scheme);
  EXPECT_TRUE(at::equal(tunable.fake_quantize().detach(), qdq_forward_aten(start(), GetParam().scheme).fake));
}

TEST_P(IntegerTunableTest, WhatIsStoredIsWhatWasTuned) {
  IntegerTunable tunable(weight(), GetParam().scheme);
  at::Tensor gradient = at::randn({6, GetParam().in}).to(GetParam().dtype);
  for (int i = 0; i < 5; ++i) tunable.step(gradient, 0.05f, 0.05f);
  QuantWeight quant = tunable.quantized();
  validate(quant, "weight");
  EXPECT_TRUE(at::equal(restored(quant).to(GetParam().dtype), tunable.fake_quantize().detach()));
}

TEST_P(IntegerTunableTest, OneStepFollowsTheSignsOfTheExpressionsGradients) {
  Scheme scheme = GetParam().scheme;
  QdqTensors tensors = start();
  at::Tensor gradient = at::randn({6, GetParam().in}).to(GetParam().dtype);
  QdqGradients gradients = qdq_backward_aten(tensors, scheme, gradient);
  IntegerTunable tunable(weight(), scheme);
  tunable.step(gradient, 0.3f, 0.25f);
  tensors.value = tensors.value - 0.3f * gradients.value.sign();
  tensors.alpha = tensors.alpha - 0.25f * gradients.alpha.sign();
  tensors.beta = tensors.beta - 0.25f * gradients.beta.sign();
  EXPECT_TRUE(at::equal(tunable.fake_quantize().detach(), qdq_forward_aten(tensors, scheme).fake));
}

INSTANTIATE_TEST_SUITE_P(Schemes, IntegerTunableTest,
                         ::testing::Values(IntegerCase{{4, 128, true}, 576, at::kBFloat16},
                                           IntegerCase{{4, 128, true}, 576, at::kFloat},
                                           IntegerCase{{4, 32, false}, 64, at::kFloat},
                                           IntegerCase{{2, 64, true}, 160, at::kBFloat16},
                                           IntegerCase{{2, 64, false}, 160, at::kBFloat16},
                                           IntegerCase{{3, 128, true}, 256, at::kFloat},
                                           IntegerCase{{8, -1, true}, 96, at::kBFloat16},
                                           IntegerCase{{8, -1, false}, 96, at::kFloat},
                                           IntegerCase{{4, 128, true}, 64, at::kFloat},
                                           IntegerCase{{4, 32, false, true}, 96, at::kFloat},
                                           IntegerCase{{2, 64, false, true}, 160, at::kBFloat16}));

// Files that store z - 1 have no room for 0, which a group of one sign would take.
TEST(IntegerTunable, ZeroPointsFromOne) {
  for (at::Tensor weight : {at::randn({4, 64}).abs(), at::zeros({4, 64}), at::randn({4, 64})}) {
    IntegerTunable tunable(weight, {2, 32, false, /*zero_from_one=*/true});
    for (int i = 0; i < 20; ++i) {
      QuantWeight quant = tunable.quantized();
      validate(quant, "weight");
      for (uint8_t zero : std::get<IntegerZeros>(quant.offset).data.as<uint8_t>()) {
        EXPECT_GE(zero, 1);
        EXPECT_LE(zero, 3);
      }
      tunable.step(at::randn({4, 64}), 0.1f, 0.1f);
    }
  }
}

// 2 bits and zero point 1: codes 1 to 3 stand for 0, s and 2s, so the largest value is kept exactly.
TEST(IntegerTunable, ZeroPointsFromOneKeepTheLargestValue) {
  at::Tensor weight = at::tensor({0.0, 0.5, 1.0, 0.25}, at::kFloat).view({1, 4});
  IntegerTunable tunable(weight, {2, 4, false, /*zero_from_one=*/true});
  at::Tensor expected = at::tensor({0.0, 0.5, 1.0, 0.0}, at::kFloat).view({1, 4});
  EXPECT_TRUE(at::equal(tunable.fake_quantize().detach(), expected));
}

// A wrong scale gradient would hide behind signs in one group; here the loss is a parabola in one number.
TEST(IntegerTunable, GradientsMatchFiniteDifferencesWhereTheyExist) {
  at::Tensor weight = at::tensor({-1.0, 0.31, 0.52, 0.9}, at::kFloat).view({1, 4});
  QdqTensors tensors{weight, at::zeros({1, 4}), at::tensor({0.83}, at::kFloat).view({1, 1}),
                     at::tensor({0.7}, at::kFloat).view({1, 1}), 4};
  Scheme scheme{8, -1, true};
  at::Tensor upstream = at::ones({1, 4});
  upstream.select(1, 1).zero_();
  upstream.select(1, 2).zero_();  // -1 is clamped by alpha = 0.83: its value follows s alone
  double analytic = qdq_backward_aten(tensors, scheme, upstream).alpha.item<double>();
  auto loss = [&](float alpha) {
    tensors.alpha = at::tensor({alpha}, at::kFloat).view({1, 1});
    return (qdq_forward_aten(tensors, scheme).fake * upstream).sum().item<double>();
  };
  // 0.9 too is beyond the range, so both move with s; f16 steps of s are 2^-18, hence the wide difference.
  EXPECT_NEAR((loss(0.85f) - loss(0.81f)) / 0.04, analytic, 0.02);
}

}  // namespace
}  // namespace quaver::quantize
