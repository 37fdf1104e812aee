// Plain rounding in slices gives what rounding the whole weight gives, under every scheme.
#include "quantize/round_to_nearest.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "quantize/rtn.h"
#include "quantize/tunable_weight.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kManyRows = 1000,
                  kManyCols = 1536;  // two slices, the second one short of a block of 128 rows

at::Tensor large_weight() { return at::randn({kManyRows, kManyCols}).to(at::kBFloat16); }

QuantWeight rounded_whole(const at::Tensor& weight, const Scheme& scheme) {
  if (scheme.data_type != DataType::kInt) return make_tunable(weight, scheme)->quantized();
  const at::Tensor values = weight.to(at::kFloat).contiguous();
  return rtn({values.const_data_ptr<float>(), static_cast<size_t>(values.numel())},
             integer_problem(weight.size(0), weight.size(1), scheme));
}

void expect_same_bytes(const Buffer& a, const Buffer& b) {
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes()));
}

void expect_same(const QuantWeight& got, const QuantWeight& want) {
  EXPECT_EQ(got.element, want.element);
  EXPECT_EQ(got.shape, want.shape);
  EXPECT_EQ(got.group, want.group);
  expect_same_bytes(got.codes, want.codes);
  expect_same_bytes(got.scale.data, want.scale.data);
  ASSERT_EQ(got.scale.super == nullptr, want.scale.super == nullptr);
  if (got.scale.super) {
    EXPECT_EQ(got.scale.super->divisor, want.scale.super->divisor);
  }
  ASSERT_EQ(got.offset.index(), want.offset.index());
  if (const auto* zeros = std::get_if<IntegerZeros>(&got.offset))
    expect_same_bytes(zeros->data, std::get<IntegerZeros>(want.offset).data);
  validate(got, "joined");
}

TEST(RoundToNearest, SlicesJoinToTheWhole) {
  const at::Tensor weight = large_weight();
  for (const char* name : {"W2A16G32", "W3A16", "W4A16", "W8A16", "INT8", "MXFP4", "MXFP8", "NVFP4",
                           "FPW8A16", "FP8_DYNAMIC", "FP8_BLOCK"})
    for (const bool sym : {true, false}) {
      Scheme scheme = scheme_from_name(name);
      if (!sym && !is_plain_integer(scheme)) continue;
      scheme.sym = sym;
      SCOPED_TRACE(to_string(scheme));
      expect_same(round_to_nearest(weight, scheme, 0, "w"), rounded_whole(weight, scheme));
    }
}

TEST(RoundToNearest, TakesEveryFloatingType) {
  const at::Tensor weight = large_weight().narrow(0, 0, 64).to(at::kHalf).to(at::kFloat);
  for (const char* name : {"W4A16", "MXFP4", "NVFP4", "FP8_DYNAMIC"}) {
    const Scheme scheme = scheme_from_name(name);
    const QuantWeight want = rounded_whole(weight, scheme);
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kDouble})
      expect_same(round_to_nearest(weight.to(type), scheme, 0, "w"), want);
  }
}

TEST(RoundToNearest, FusedLayersMayShareALargestMagnitude) {
  const at::Tensor weight = large_weight();
  EXPECT_EQ(round_to_nearest(weight, scheme_from_name("NVFP4"), 7, "w").scale.super->divisor,
            448.0f * 6.0f / 7.0f);
}

TEST(RoundToNearest, WhatIsNotFiniteIsNamed) {
  at::Tensor weight = large_weight();
  weight[900][3] = std::numeric_limits<float>::quiet_NaN();
  const auto message = [&](const char* scheme) -> std::string {
    try {
      round_to_nearest(weight, scheme_from_name(scheme), 0, "file: tensor 'w'");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message("W4A16"), "file: tensor 'w': the value at row 900, column 3 is not finite");
  for (const char* scheme : {"MXFP4", "NVFP4", "FP8_DYNAMIC", "FP8_BLOCK"})
    EXPECT_EQ(message(scheme), "file: tensor 'w': holds a value that is not finite");
}

TEST(RoundToNearest, LargestMagnitudeLooksAtBothEnds) {
  const at::Tensor weight = large_weight().clamp(-2, 2);
  weight[0][0] = -3;
  EXPECT_EQ(largest_magnitude(weight), 3);
  EXPECT_EQ(largest_magnitude(-weight), 3);
  weight[1][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(largest_magnitude(weight)));
}

}  // namespace
}  // namespace quaver::quantize
