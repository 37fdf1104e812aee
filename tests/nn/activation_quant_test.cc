// Quantized inputs against a double-precision reference that searches the list of all codes, and layers that
// use them.
#include "nn/activation_quant.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "nn/kernel_path.h"
#include "nn/linear.h"
#include "nn/support.h"
#include "numerics/e5m3.h"
#include "numerics/element_value.h"

namespace quaver::nn {
namespace {

using Mode = ActivationQuant::Mode;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// The magnitudes of a float format in ascending order; the index is the code.
const std::vector<double>& magnitudes(Element element) {
  static std::map<Element, std::vector<double>> known;
  std::vector<double>& values = known[element];
  if (!values.empty()) return values;
  for (int code = 0; code < 1 << (element_info(element).bits - 1); ++code)
    if (const double value = element_value(element, static_cast<uint8_t>(code)); std::isfinite(value))
      values.push_back(value);
  return values;
}

const std::vector<double>& magnitudes(ScaleCodec codec) {
  if (codec == ScaleCodec::kE4M3FN) return magnitudes(Element::kE4M3FN);
  static std::vector<double> values;
  for (size_t code = values.size(); code < 255; ++code)
    values.push_back(e5m3_to_float(static_cast<uint8_t>(code)));
  return values;
}

// Of two that are equally near the one with the even code; above the last one, the last one.
double nearest(const std::vector<double>& values, double x) {
  const double magnitude = std::fabs(x);
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double further = std::fabs(values[i] - magnitude) - std::fabs(values[best] - magnitude);
    if (further < 0 || (further == 0 && i % 2 == 0)) best = i;
  }
  return std::copysign(values[best], x);
}

double nearest_integer(double x) { return std::nearbyint(x); }

double largest(const ActivationQuant& quant) {
  if (element_info(quant.element).integer) return (1 << (element_info(quant.element).bits - 1)) - 1;
  return magnitudes(quant.element).back();
}

double reference_code(double x, const ActivationQuant& quant, double zero) {
  if (!element_info(quant.element).integer) return nearest(magnitudes(quant.element), x);
  const double high = largest(quant), low = quant.narrow ? -high : -high - 1;
  return std::clamp(nearest_integer(x) + zero, low, high) - zero;
}

double reference_power(double amax, const ActivationQuant& quant) {
  int e = 0;
  std::frexp(largest(quant) * quant.super_scale, &e);  // largest = f x 2^e with f in [1/2, 1)
  const double m = largest(quant) * quant.super_scale, unit = std::exp2(e - 1);
  const auto steps = [&](double bits) { return std::exp2(std::floor(std::log2(amax))) * std::exp2(-bits); };
  const auto rounded = [&](double bits) { return std::floor(amax / steps(bits) + 0.5) * steps(bits); };
  const double bits = quant.element == Element::kE2M1 ? 1 : quant.element == Element::kE3M2 ? 2 : 3;
  const auto floor2 = [](double x) { return std::exp2(std::floor(std::log2(x))); };
  if (quant.power_of_two == PowerOfTwo::kFloor) return floor2(amax) / unit;
  if (quant.power_of_two == PowerOfTwo::kRounded) return floor2(rounded(bits)) / unit;
  if (quant.power_of_two == PowerOfTwo::kRoundedToOneBit) return floor2(rounded(1)) / unit;
  if (quant.power_of_two == PowerOfTwo::kCeil) return std::exp2(std::ceil(std::log2(amax))) / unit;
  return std::exp2(std::ceil(std::log2(amax / m)));
}

double reference_scale(double amax, const ActivationQuant& quant) {
  if (quant.scale == ScaleCodec::kE8M0) return reference_power(amax, quant) * quant.super_scale;
  const bool half = element_info(quant.element).integer && !quant.narrow;
  const double first = amax / (largest(quant) + (half ? 0.5 : 0));
  const double above = quant.super_divisor != 0 ? 1.0 / quant.super_divisor : quant.super_scale;
  if (quant.scale == ScaleCodec::kF32) return static_cast<float>(first);
  return nearest(magnitudes(quant.scale), first / above) * above;
}

void reference_group(std::vector<double>& x, const ActivationQuant& quant) {
  double scale = quant.static_scale, zero = quant.static_zero;
  if (quant.mode == Mode::kDynamic) {
    const double least = std::min(0.0, *std::min_element(x.begin(), x.end()));
    const double most = std::max(0.0, *std::max_element(x.begin(), x.end()));
    if (least == 0 && most == 0) return;
    scale = quant.sym ? reference_scale(std::max(-least, most), quant)
                      : static_cast<float>((most - least) / (2 * largest(quant) + 1));
    if (!quant.sym) zero = -largest(quant) - 1 - nearest_integer(least / scale);
  }
  for (double& value : x) value = scale == 0 ? 0 : reference_code(value / scale, quant, zero) * scale;
}

// [rows, in], by groups of `group`, whatever the mode.
at::Tensor reference(const at::Tensor& x, const ActivationQuant& quant) {
  at::Tensor y = x.to(at::kDouble).contiguous().clone();
  const int64_t in = x.size(-1), group = quant.group > 0 ? quant.group : quant.group < 0 ? in : x.numel();
  auto* values = y.mutable_data_ptr<double>();
  const int64_t row = quant.group == 0 ? x.numel() : in;
  for (int64_t start = 0; start < x.numel(); start += row)
    for (int64_t at = 0; at < row; at += group) {
      std::vector<double> part(values + start + at, values + start + std::min(row, at + group));
      reference_group(part, quant);
      std::copy(part.begin(), part.end(), values + start + at);
    }
  return y;
}

// A scale that is rounded to float32 may turn a near tie: then both results are equally near, but for a few
// roundings.
void expect_as_near(const at::Tensor& x, const ActivationQuant& quant, const std::string& name) {
  const at::Tensor got = quantize_dequantize(x, quant).to(at::kDouble), want = reference(x, quant);
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor slack = (exact.abs() + want.abs()) * 0x1p-20;
  const at::Tensor differs = (got - want).abs() > slack;
  const at::Tensor further = ((got - exact).abs() - (want - exact).abs()) > slack;
  EXPECT_FALSE(further.any().item<bool>()) << name;
  EXPECT_LE(differs.sum().item<int64_t>(), x.numel() / 200) << name;
  EXPECT_GT((got - exact).abs().max().item<double>(), 0) << name;
}

// Rows of usual numbers, of zeros, of tiny and of huge ones, and one with few large among small ones.
at::Tensor odd_rows(int64_t in) {
  const at::Tensor rows = randn({16, in}, 5);
  return at::cat({rows, at::zeros({2, in}), rows * 1e-20, rows * 1e20, rows.pow(7)});
}

ActivationQuant dynamic(Element element, int64_t group, ScaleCodec scale = ScaleCodec::kF32) {
  return {.mode = Mode::kDynamic, .element = element, .group = group, .scale = scale};
}

TEST(ActivationQuant, FloatsWithFloatScales) {
  for (const Element element :
       {Element::kE4M3FN, Element::kE4M3FNUZ, Element::kE5M2, Element::kE2M1, Element::kE2M3, Element::kE3M2})
    for (const int64_t group : {-1, 128, 16}) {
      ActivationQuant quant = dynamic(element, group);
      expect_as_near(odd_rows(256), quant, describe(quant));
    }
  expect_as_near(randn({8, 64}, 1), dynamic(Element::kE4M3FN, 0), "whole tensor");
}

TEST(ActivationQuant, IntegersOfAGroup) {
  for (const bool sym : {true, false})
    for (const bool narrow : {true, false}) {
      if (narrow && !sym) continue;
      ActivationQuant quant = dynamic(Element::kInt8, -1);
      quant.sym = sym;
      quant.narrow = narrow;
      expect_as_near(odd_rows(96), quant, describe(quant));
      expect_as_near(odd_rows(96).abs(), quant, describe(quant) + ", positive");
      quant.group = 0;
      expect_as_near(randn({8, 64}, 2), quant, describe(quant));
    }
}

TEST(ActivationQuant, OneFixedScale) {
  const at::Tensor x = at::cat({randn({8, 64}, 3), randn({8, 64}, 4) * 100});
  for (const Element element : {Element::kE4M3FN, Element::kE5M2, Element::kE4M3FNUZ})
    expect_as_near(x, {.mode = Mode::kStatic, .element = element, .static_scale = 0.013f}, "static float");
  for (const int zero : {0, 7, -128})
    expect_as_near(x, {.mode = Mode::kStatic, .sym = zero == 0, .static_scale = 0.05f, .static_zero = zero},
                   cat("static zero ", zero));
}

TEST(ActivationQuant, PowersOfTwo) {
  for (const Element element : {Element::kE4M3FN, Element::kE2M1, Element::kE2M3, Element::kE3M2})
    for (const PowerOfTwo rule : {PowerOfTwo::kFloor, PowerOfTwo::kRounded, PowerOfTwo::kRoundedToOneBit,
                                  PowerOfTwo::kCeil, PowerOfTwo::kFit}) {
      ActivationQuant quant = dynamic(element, 32, ScaleCodec::kE8M0);
      quant.power_of_two = rule;
      expect_as_near(odd_rows(64), quant, cat(describe(quant), " rule ", static_cast<int>(rule)));
    }
}

TEST(ActivationQuant, RulesForPowersOfTwoPart) {
  const auto first = [](float amax, PowerOfTwo rule) {
    ActivationQuant quant = dynamic(Element::kE2M1, -1, ScaleCodec::kE8M0);
    quant.power_of_two = rule;
    return quantize_dequantize(at::full({1, 4}, amax), quant)[0][0].item<float>();
  };
  EXPECT_EQ(first(7, PowerOfTwo::kFloor), 6) << "cut";
  EXPECT_EQ(first(7, PowerOfTwo::kRounded), 8);
  EXPECT_EQ(first(6.9f, PowerOfTwo::kRounded), 6);
  EXPECT_EQ(first(6, PowerOfTwo::kFit), 6);
  EXPECT_EQ(first(6.1f, PowerOfTwo::kFit), 6) << "3.05 under a scale of 2";
  EXPECT_EQ(first(6.9f, PowerOfTwo::kFit), 6);
  EXPECT_EQ(first(7.1f, PowerOfTwo::kFit), 8);
  EXPECT_EQ(first(5, PowerOfTwo::kFloor), 4) << "a tie, to the even code";
  EXPECT_EQ(first(5.2f, PowerOfTwo::kCeil), 6) << "2.6 under a scale of 2";
  ActivationQuant e4m3 = dynamic(Element::kE4M3FN, -1, ScaleCodec::kE8M0);
  const at::Tensor x = at::tensor({448.0f, 0.0013f});  // the second is between multiples of 2^-9
  EXPECT_EQ(quantize_dequantize(x, e4m3)[1].item<float>(), 0x1p-9f);
  e4m3.power_of_two = PowerOfTwo::kRoundedToOneBit;
  EXPECT_EQ(quantize_dequantize(x, e4m3)[1].item<float>(), 0.0f) << "under a scale of 2";
  e4m3.power_of_two = PowerOfTwo::kRounded;
  EXPECT_EQ(quantize_dequantize(x, e4m3)[1].item<float>(), 0x1p-9f) << "448 has three bits and stays";
}

TEST(ActivationQuant, TwoLevels) {
  ActivationQuant quant = dynamic(Element::kE2M1, 16, ScaleCodec::kE4M3FN);
  const at::Tensor x = at::cat({randn({16, 64}, 6), at::zeros({1, 64}), randn({4, 64}, 7) * 1e-9});
  quant.super_scale = 0.0013f;
  expect_as_near(x, quant, "multiplied");
  quant.super_divisor = 700;
  quant.super_scale = 1.0f / 700;
  expect_as_near(x, quant, "divided");
  ActivationQuant huge = dynamic(Element::kE2M1, 16, ScaleCodec::kE4M3FN);
  huge.super_scale = 1000;
  EXPECT_TRUE(quantize_dequantize(at::full({1, 16}, 5.0f), huge).equal(at::zeros({1, 16})))
      << "scale below 2^-10";
  expect_as_near(x, dynamic(Element::kE2M1, 16, ScaleCodec::kE5M3), "one level of e5m3");
}

TEST(ActivationQuant, SecondLevelOfEachRow) {
  ActivationQuant own = dynamic(Element::kE2M1, 16, ScaleCodec::kE4M3FN);
  own.super_per_row = true;
  for (const int64_t in : {64, 40}) {  // 40: two groups and half a one
    const at::Tensor x = at::cat({randn({4, in}, 6), at::zeros({1, in}), randn({2, in}, 7) * 1e-9});
    const at::Tensor y = quantize_dequantize(x, own);
    for (int64_t row = 0; row < x.size(0); ++row) {
      ActivationQuant fixed = dynamic(Element::kE2M1, 16, ScaleCodec::kE4M3FN);
      fixed.super_scale = x[row].abs().max().item<float>() / (448.0f * 6.0f);
      if (fixed.super_scale == 0) fixed.super_scale = 1;
      EXPECT_TRUE(y[row].equal(quantize_dequantize(x[row], fixed)))
          << "as when a checkpoint says it: " << row;
    }
  }
  at::Tensor bad = randn({2, 64}, 8);
  bad[0][3] = kInf;
  const at::Tensor y = quantize_dequantize(bad, own);
  EXPECT_TRUE(y[0].isnan().all().item<bool>());
  EXPECT_TRUE(y[1].equal(quantize_dequantize(bad[1], own)));
  EXPECT_EQ(describe(own), "e2m1 g16 under a scale per token");
}

TEST(ActivationQuant, SignMagnitudeQuarters) {
  ActivationQuant quant = dynamic(Element::kInt4, 32, ScaleCodec::kE8M0);
  quant.narrow = true;
  quant.super_scale = 0.25f;
  expect_as_near(odd_rows(64), quant, "mx int4");
  const at::Tensor x = at::tensor({1.99f, -1.99f, 0.3f});
  EXPECT_TRUE(quantize_dequantize(x, quant).equal(at::tensor({1.75f, -1.75f, 0.25f})));
}

TEST(ActivationQuant, TiesGoToTheEvenCode) {
  const auto under_one = [](Element element, float x) {
    return quantize_dequantize(at::tensor({x}), {.mode = Mode::kStatic, .element = element}).item<float>();
  };
  for (const Element element : {Element::kE4M3FN, Element::kE4M3FNUZ, Element::kE5M2, Element::kE2M1,
                                Element::kE2M3, Element::kE3M2}) {
    const std::vector<double>& values = magnitudes(element);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const float middle = static_cast<float>((values[i] + values[i + 1]) / 2);
      EXPECT_EQ(under_one(element, -middle), -values[i + i % 2]) << element_info(element).name << " " << i;
      EXPECT_EQ(under_one(element, std::nextafter(middle, 0.0f)), values[i]);
      EXPECT_EQ(under_one(element, std::nextafter(middle, kInf)), values[i + 1]);
    }
    EXPECT_EQ(under_one(element, 1e30f), values.back());
  }
  EXPECT_EQ(under_one(Element::kInt8, 2.5f), 2);
  EXPECT_EQ(under_one(Element::kInt8, -128.6f), -128);
}

TEST(ActivationQuant, WhatIsNotFinitePropagates) {
  std::vector<ActivationQuant> modes = {dynamic(Element::kE4M3FN, 4), dynamic(Element::kInt8, 4),
                                        dynamic(Element::kE2M1, 4, ScaleCodec::kE8M0),
                                        dynamic(Element::kE2M1, 4, ScaleCodec::kE4M3FN)};
  modes.push_back(modes[1]);
  modes.back().sym = false;
  for (const PowerOfTwo rule : {PowerOfTwo::kRounded, PowerOfTwo::kCeil, PowerOfTwo::kFit}) {
    modes.push_back(modes[2]);
    modes.back().power_of_two = rule;
  }
  for (const ActivationQuant& quant : modes)
    for (const float bad : {kNaN, kInf, -kInf}) {
      const at::Tensor y =
          quantize_dequantize(at::tensor({1.0f, 2.0f, bad, 3.0f, 1.0f, 2.0f, 3.0f, 4.0f}), quant);
      EXPECT_TRUE(y[2].isnan().item<bool>()) << describe(quant) << " " << bad;
      EXPECT_TRUE(y.narrow(0, 4, 4).isfinite().all().item<bool>()) << describe(quant) << " " << bad;
    }
  const ActivationQuant fixed{.mode = Mode::kStatic, .element = Element::kE4M3FN, .static_scale = 0.5f};
  EXPECT_TRUE(quantize_dequantize(at::tensor({kNaN}), fixed).isnan().item<bool>());
  EXPECT_EQ(quantize_dequantize(at::tensor({-kInf}), fixed).item<float>(), -224) << "as any large number";
}

TEST(ActivationQuant, ShapesAndDtypesStay) {
  const ActivationQuant quant = dynamic(Element::kE4M3FN, 32);
  EXPECT_EQ(quantize_dequantize(at::zeros({0, 64}), quant).sizes(), (at::IntArrayRef{0, 64}));
  const at::Tensor tail = randn({3, 40}, 8);  // 32 and 8
  EXPECT_TRUE(quantize_dequantize(tail, quant)
                  .narrow(1, 32, 8)
                  .equal(quantize_dequantize(tail.narrow(1, 32, 8).contiguous(), quant)));
  const at::Tensor narrow = randn({2, 3, 64}, 9).to(at::kBFloat16);
  const at::Tensor y = quantize_dequantize(narrow, quant);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(y.equal(quantize_dequantize(narrow.to(at::kFloat), quant).to(at::kBFloat16)));
  EXPECT_TRUE(quantize_dequantize(tail.t(), quant).equal(quantize_dequantize(tail.t().contiguous(), quant)));
}

TEST(ActivationQuant, OutlierColumnsPass) {
  ActivationQuant quant = dynamic(Element::kInt8, -1);
  quant.narrow = true;
  quant.outlier_threshold = 6;
  at::Tensor x = randn({4, 32}, 10).clamp(-5, 5);
  const at::Tensor usual = quantize_dequantize(x, quant);
  x[1][7] = 60;
  const at::Tensor y = quantize_dequantize(x, quant);
  EXPECT_TRUE(y.select(1, 7).equal(x.select(1, 7)));
  for (const int64_t row : {0, 2, 3})
    EXPECT_TRUE(y[row].narrow(0, 8, 24).equal(usual[row].narrow(0, 8, 24))) << "scales don't see the outlier";
}

TEST(ActivationQuant, Descriptions) {
  EXPECT_EQ(describe({}), "not quantized");
  EXPECT_EQ(describe(dynamic(Element::kE4M3FN, -1)), "e4m3fn per token");
  EXPECT_EQ(describe(dynamic(Element::kE2M1, 16)), "e2m1 g16");
  EXPECT_EQ(describe({.mode = Mode::kDynamic, .sym = false}), "int8 asym per tensor");
  EXPECT_EQ(describe({.mode = Mode::kStatic}), "int8 static");
}

constexpr int64_t kWidth = 64;

Linear layer_of(uint64_t seed, const InputQuant& input, int bits = 8) {
  QuantWeight weight = random_quant_weight(24, kWidth, {.bits = bits}, seed);
  Linear layer = Linear::quantized(std::make_shared<QuantWeight>(std::move(weight)), randn({24}, seed + 1),
                                   at::kFloat, at::kCPU);
  layer.set_input_quant(input);
  return layer;
}

at::Tensor wanted(const Linear& layer, const at::Tensor& x) {
  return x.matmul(layer.dense_weight().t()) + *layer.bias();
}

TEST(QuantizedInput, LayersMultiplyIt) {
  c10::InferenceMode no_gradients;
  const std::vector<float> none;
  const at::Tensor x = randn({5, kWidth}, 20);
  for (const int bits : {4, 8})
    for (const ActivationQuant& quant : {dynamic(Element::kE4M3FN, -1), dynamic(Element::kInt8, -1)}) {
      const Linear layer = layer_of(21, InputQuant(quant, none, at::kCPU), bits);
      const at::Tensor want = wanted(layer, quantize_dequantize(x, quant));
      EXPECT_TRUE(near(layer.forward(x), want, kWidth)) << layer.kernel_name() << " must not round x again";
      EXPECT_NE(layer.kernel_name(), "aten");
      EXPECT_FALSE(near(layer.forward(x), wanted(layer, x), kWidth));
      AtenOnly reference;
      EXPECT_TRUE(near(layer.forward(x), want, kWidth));
    }
}

TEST(QuantizedInput, MultiplierComesFirst) {
  std::vector<float> multiplier(kWidth);
  for (size_t i = 0; i < multiplier.size(); ++i) multiplier[i] = i % 3 == 0 ? 0.01f : 1.5f;
  const ActivationQuant quant = dynamic(Element::kInt8, -1);
  const at::Tensor x = randn({5, kWidth}, 22);
  const InputQuant input(quant, multiplier, at::kCPU);
  const at::Tensor scaled = x * at::tensor(multiplier);
  EXPECT_TRUE(input.apply(x).equal(quantize_dequantize(scaled, quant)));
  const Linear layer = layer_of(23, input);
  EXPECT_TRUE(near(layer.forward(x), wanted(layer, quantize_dequantize(scaled, quant)), kWidth));
}

TEST(QuantizedInput, GroupsAgreeWithTheirLayers) {
  c10::InferenceMode no_gradients;
  const at::Tensor x = randn({5, kWidth}, 24);
  const InputQuant token(dynamic(Element::kE4M3FN, -1), {}, at::kCPU);
  const InputQuant grouped(dynamic(Element::kE2M1, 16, ScaleCodec::kE4M3FN), {}, at::kCPU);
  const InputQuant multiplied(dynamic(Element::kE4M3FN, -1), std::vector<float>(kWidth, 0.7f), at::kCPU);
  EXPECT_TRUE(token.agrees_with(token));
  EXPECT_FALSE(token.agrees_with(grouped));
  EXPECT_FALSE(token.agrees_with(multiplied));
  EXPECT_FALSE(token.agrees_with(InputQuant()));
  for (const InputQuant& second : {token, grouped, multiplied, InputQuant()}) {
    const Linear a = layer_of(25, token), b = layer_of(27, second);
    const std::vector<at::Tensor> both = LinearGroup({&a, &b}).forward(x);
    EXPECT_TRUE(both[0].equal(a.forward(x)));
    EXPECT_TRUE(both[1].equal(b.forward(x)));
  }
}

TEST(QuantizedInput, GradientsPassStraightThrough) {
  const std::vector<float> multiplier(kWidth, 0.5f);
  for (const InputQuant& input : {InputQuant(dynamic(Element::kE2M1, 32, ScaleCodec::kE8M0), {}, at::kCPU),
                                  InputQuant(dynamic(Element::kE4M3FN, -1), multiplier, at::kCPU)}) {
    at::Tensor x = randn({3, kWidth}, 31).requires_grad_(true), upstream = randn({3, kWidth}, 32);
    at::Tensor y = input.apply(x);
    EXPECT_TRUE(y.detach().equal(input.apply(x.detach())));
    y.backward(upstream);
    const bool halved = !input.agrees_with(input);  // false only with a multiplier
    EXPECT_TRUE(x.grad().equal(halved ? upstream * 0.5 : upstream));
  }
}

}  // namespace
}  // namespace quaver::nn
