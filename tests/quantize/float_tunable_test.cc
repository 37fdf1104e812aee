// Small floats under tuning: AutoRound's own results, the stored form, and the direction of a step.
#include "quantize/float_tunable.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "checkpoint/safetensors_file.h"
#include "nn/tensor_bridge.h"

namespace quaver::quantize {
namespace {

const Scheme kMxFp4 = scheme_from_name("MXFP4"), kMxFp8 = scheme_from_name("MXFP8"),
             kNvFp4 = scheme_from_name("NVFP4"), kFp8Row = scheme_from_name("FP8_STATIC"),
             kFp8Tensor = scheme_from_name("FP8_TENSOR");
const Scheme kFp8Block = {.bits = 8, .group_size = 96, .data_type = DataType::kFp, .group_rows = 16};

class Golden {
 public:
  at::Tensor read(const std::string& name) const { return nn::tensor_over(file_.read(name), name).clone(); }

 private:
  SafetensorsFile file_ = SafetensorsFile::open(QUAVER_TEST_DATA "/golden/quantize/float_rtn.safetensors");
};

struct FloatCase {
  const char* name;
  Scheme scheme;
};

void PrintTo(const FloatCase& which, std::ostream* out) { *out << which.name; }

class FloatTunableTest : public ::testing::TestWithParam<FloatCase> {
 protected:
  const Scheme& scheme() const { return GetParam().scheme; }
};

// The tool multiplies NVFP4's scales in another order. That is worth a few units of float32, so where values
// differ both are as near to the weight, up to bfloat16.
TEST_P(FloatTunableTest, RoundsAsAutoRound) {
  Golden golden;
  at::Tensor weight = golden.read("weight"), theirs = golden.read(std::string(GetParam().name) + ".qdq");
  FloatTunable tunable(weight, scheme(), 0);
  at::Tensor ours = tunable.fake_quantize().detach();
  at::Tensor differs = ours != theirs;
  if (scheme().data_type != DataType::kNvFp) {
    EXPECT_EQ(differs.sum().item<int64_t>(), 0);
  }
  auto distance = [&](const at::Tensor& w_hat) {
    return (w_hat.to(at::kDouble) - weight.to(at::kDouble)).abs();
  };
  at::Tensor gap = (distance(ours) - distance(theirs)).abs() - weight.to(at::kDouble).abs() * 0x1p-8;
  EXPECT_LE((gap * differs).max().item<double>(), 0.0);
}

// The tool has no such case for its blocks.
class GroupedFloatTest : public FloatTunableTest {};

TEST_P(GroupedFloatTest, MovedParametersGiveAutoRoundsValues) {
  Golden golden;
  std::string name = GetParam().name;
  FloatTunable tunable(golden.read("weight"), scheme(), 0);
  at::Tensor ours = tunable.fake_under(golden.read("value"), golden.read(name + ".beta")).to(at::kBFloat16);
  at::Tensor theirs = golden.read(name + "-moved.qdq");
  EXPECT_TRUE(at::equal(ours, theirs)) << (ours != theirs).sum().item<int64_t>() << " elements differ";
}

INSTANTIATE_TEST_SUITE_P(Kinds, FloatTunableTest,
                         ::testing::Values(FloatCase{"mx_fp-4", kMxFp4}, FloatCase{"mx_fp-8", kMxFp8},
                                           FloatCase{"nv_fp-4", kNvFp4}, FloatCase{"fp-8", kFp8Block}));
INSTANTIATE_TEST_SUITE_P(Kinds, GroupedFloatTest,
                         ::testing::Values(FloatCase{"mx_fp-4", kMxFp4}, FloatCase{"mx_fp-8", kMxFp8},
                                           FloatCase{"nv_fp-4", kNvFp4}));

std::string kind_name(const ::testing::TestParamInfo<Scheme>& info) {
  constexpr const char* kNames[] = {"MxFp4", "MxFp8", "NvFp4", "Fp8Row", "Fp8Tensor", "Fp8Block"};
  return kNames[info.index];
}

class EveryKind : public ::testing::TestWithParam<Scheme> {};

TEST_P(EveryKind, WhatIsStoredIsWhatWasTuned) {
  at::manual_seed(3);
  at::Tensor weight = at::randn({48, 288}) * 0.05;
  weight.select(0, 0).zero_();
  FloatTunable tunable(weight, GetParam(), 0);
  for (int i = 0; i < 5; ++i) tunable.step(at::randn({48, 288}), 0.1f, 0.05f);
  QuantWeight quant = tunable.quantized();
  validate(quant, "weight");
  std::vector<float> values = dequantize(quant);
  EXPECT_TRUE(at::equal(at::from_blob(values.data(), {48, 288}), tunable.fake_quantize().detach()));
}

// The loss is half the squared distance to a target less than a step away, and rates decay as in tuning.
TEST(FloatTunable, RoundingComesNearerToATarget) {
  for (const Scheme& scheme : {kMxFp4, kNvFp4}) {
    at::manual_seed(4);
    at::Tensor weight = at::randn({48, 288}) * 0.05;
    FloatTunable tunable(weight, scheme, 0);
    std::vector<float> scales = decode_scales(tunable.quantized().scale);
    float step = std::accumulate(scales.begin(), scales.end(), 0.0f) / static_cast<float>(scales.size());
    at::Tensor target = tunable.fake_quantize().detach() + at::randn({48, 288}) * step;
    auto difference = [&] { return tunable.fake_quantize().detach() - target; };
    double before = difference().square().sum().item<double>();
    for (int i = 0; i < 100; ++i)
      tunable.step(difference(), 0.02f * (1.0f - static_cast<float>(i) / 100), 0.0f);
    EXPECT_LT(difference().square().sum().item<double>(), 0.8 * before);
  }
}

// dL/ds = sum dw (q - w / s): nothing is cut while beta is 1 and V is 0.
TEST(FloatTunable, RangesFollowTheSignOfTheScalesGradient) {
  at::manual_seed(6);
  at::Tensor weight = at::randn({48, 288}) * 0.05, gradient = at::randn({48, 288});
  FloatTunable tunable(weight, kFp8Block, 0);
  at::Tensor fake = tunable.fake_quantize().detach().clone();
  std::vector<float> before = decode_scales(tunable.quantized().scale);
  tunable.step(gradient, 0.0f, 0.125f);
  std::vector<float> after = decode_scales(tunable.quantized().scale);
  at::Tensor terms = (gradient * (fake - weight)).view({3, 16, 3, 96}).sum({1, 3}).contiguous().view({9});
  for (int64_t tile = 0; tile < 9; ++tile) {
    float expected = terms[tile].item<float>() > 0 ? 0.875f : 1.125f;
    EXPECT_FLOAT_EQ(after[static_cast<size_t>(tile)], before[static_cast<size_t>(tile)] * expected);
  }
}

TEST_P(EveryKind, TheSearchNeverLoses) {
  at::manual_seed(5);
  at::Tensor weight = at::randn({48, 288}) * 0.05;
  FloatTunable plain(weight, GetParam(), 0), searched(weight, GetParam(), 0);
  searched.search_ranges({});
  auto error = [&](FloatTunable& t) {
    return (t.fake_quantize().detach() - weight).square().sum().item<double>();
  };
  EXPECT_LE(error(searched), error(plain));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind,
                         ::testing::Values(kMxFp4, kMxFp8, kNvFp4, kFp8Row, kFp8Tensor, kFp8Block),
                         kind_name);

TEST(FloatTunable, PowersOfTwoStartFarFromTheirEnds) {
  at::manual_seed(6);
  at::Tensor weight = at::randn({32, 256}) * 0.05;
  for (const Scheme& scheme : {kMxFp4, kMxFp8}) {
    FloatTunable tunable(weight, scheme, 0);
    tunable.search_ranges({});
    const Buffer before = tunable.quantized().scale.data;
    const at::Tensor error =
        tunable.fake_quantize().detach().clone() - weight;  // as a gradient it lowers beta
    for (const auto& [steps, sign] : {std::pair{10, 1.0}, {20, -1.0}}) {
      for (int i = 0; i < steps; ++i) tunable.step(sign * error, 0.0f, 0.005f);
      const Buffer after = tunable.quantized().scale.data;
      EXPECT_TRUE(std::ranges::equal(after.bytes(), before.bytes())) << sign;
    }
  }
}

TEST(FloatTunable, FusedLayersShareTheirGlobalScale) {
  at::Tensor weight = at::ones({2, 32});
  QuantWeight alone = FloatTunable(weight, kNvFp4, 0).quantized();
  QuantWeight fused = FloatTunable(weight, kNvFp4, 4.0f).quantized();
  EXPECT_EQ(alone.scale.super->divisor, 448.0f * 6.0f);
  EXPECT_EQ(fused.scale.super->divisor, 448.0f * 6.0f / 4.0f);
}

}  // namespace
}  // namespace quaver::quantize
