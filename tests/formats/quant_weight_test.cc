// The canonical form: what it means in double precision, and what validate refuses.
#include "formats/quant_weight.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "formats/bitstream.h"
#include "numerics/e2m1.h"
#include "numerics/e2m3.h"
#include "numerics/e3m2.h"
#include "numerics/fp4.h"
#include "numerics/half.h"
#include "numerics/nf4.h"

namespace quaver {
namespace {

struct WeightCase {
  int bits;
  ScaleCodec codec;
  Extent2d group;
  bool zeros;
};

// A weight and, beside it, its parts as plain numbers.
struct Sample {
  QuantWeight weight;
  std::vector<uint8_t> codes, zeros;
  std::vector<float> scales;
};

Buffer encode_scales(const std::vector<float>& scales, ScaleCodec codec) {
  if (codec == ScaleCodec::kF32) return Buffer::copy_of(scales);
  std::vector<uint16_t> stored;
  for (const float s : scales)
    stored.push_back(codec == ScaleCodec::kF16 ? float_to_f16(s) : float_to_bf16(s));
  return Buffer::copy_of(stored);
}

Sample make_sample(const WeightCase& which, Extent2d shape = {8, 72}) {
  Sample sample;
  std::mt19937 generator(7);
  QuantWeight& w = sample.weight;
  w.element = integer_element(which.bits);
  w.shape = shape;
  w.group = which.group;
  std::byte* target = nullptr;
  w.codes = Buffer::allocate(static_cast<size_t>(shape.rows * w.row_bytes()), target);
  for (int64_t i = 0; i < shape.rows * shape.cols; ++i)
    sample.codes.push_back(static_cast<uint8_t>(generator() & ((1u << which.bits) - 1)));
  for (int64_t n = 0; n < shape.rows; ++n)
    pack_codes(sample.codes.data() + n * shape.cols, which.bits, shape.cols, target + n * w.row_bytes());
  const int64_t groups = w.num_group_rows() * w.num_group_cols();
  for (int64_t g = 0; g < groups; ++g) {
    sample.scales.push_back(0.125f * static_cast<float>(g % 11 + 1) * (g % 2 ? -1.0f : 1.0f));
    sample.zeros.push_back(which.zeros ? static_cast<uint8_t>(generator() % (1u << which.bits))
                                       : static_cast<uint8_t>(1u << (which.bits - 1)));
  }
  w.scale = {.codec = which.codec, .data = encode_scales(sample.scales, which.codec)};
  if (which.zeros) w.offset = IntegerZeros{Buffer::copy_of(sample.zeros)};
  return sample;
}

void expect_values(const Sample& sample) {
  const QuantWeight& w = sample.weight;
  const std::vector<float> values = dequantize(w);
  for (int64_t n = 0; n < w.shape.rows; ++n)
    for (int64_t k = 0; k < w.shape.cols; ++k) {
      const int64_t position = w.permutation.empty() ? k : w.permutation[static_cast<size_t>(k)];
      const auto g = static_cast<size_t>(n / w.group.rows * w.num_group_cols() + position / w.group.cols);
      const auto at = static_cast<size_t>(n * w.shape.cols + k);
      ASSERT_EQ(values[at], static_cast<double>(sample.scales[g]) * (sample.codes[at] - sample.zeros[g]))
          << n << " " << k;
    }
}

TEST(QuantWeight, EveryWidthCodecAndGroupDecodes) {
  for (int bits = 2; bits <= 8; ++bits)
    for (const ScaleCodec codec : {ScaleCodec::kF32, ScaleCodec::kF16, ScaleCodec::kBF16})
      for (const Extent2d group : {Extent2d{1, 32}, Extent2d{1, 72}, Extent2d{4, 16}, Extent2d{8, 72}})
        for (const bool zeros : {false, true}) {
          const Sample sample = make_sample({bits, codec, group, zeros});
          EXPECT_NO_THROW(validate(sample.weight, "sample"));
          expect_values(sample);
        }
}

TEST(QuantWeight, PermutationPicksTheGroup) {
  Sample sample = make_sample({4, ScaleCodec::kF16, {1, 16}, true});
  for (int k = 0; k < 72; ++k) sample.weight.permutation.push_back((k * 5 + 3) % 72);
  validate(sample.weight, "sample");
  expect_values(sample);
}

TEST(QuantWeight, SecondLevelMultiplies) {
  Sample sample = make_sample({4, ScaleCodec::kF16, {1, 36}, false});
  sample.weight.scale.super = std::make_unique<Scales>();
  sample.weight.scale.super->data =
      Buffer::copy_of(std::vector<float>{0.5f, 3.0f});  // one per half of the rows
  for (size_t g = 0; g < sample.scales.size(); ++g) sample.scales[g] *= g < 8 ? 0.5f : 3.0f;
  validate(sample.weight, "sample");
  expect_values(sample);
}

TEST(QuantWeight, RealMinimaAreSubtracted) {
  Sample sample = make_sample({4, ScaleCodec::kF32, {1, 72}, false}, {2, 72});
  sample.weight.offset = RealMins{{.data = Buffer::copy_of(std::vector<float>{0.25f, -1.0f})}};
  validate(sample.weight, "sample");
  const std::vector<float> values = dequantize(sample.weight);
  EXPECT_EQ(values[3], sample.scales[0] * sample.codes[3] - 0.25f);
  EXPECT_EQ(values[75], sample.scales[1] * sample.codes[75] + 1.0f);
}

// One row of every code, each in a group of its own scale.
QuantWeight every_code(Element element, ScaleCodec codec, Buffer scales) {
  const int bits = element_info(element).bits;
  std::vector<uint8_t> codes(size_t{1} << bits);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  std::vector<std::byte> packed(codes.size() * static_cast<size_t>(bits) / 8);
  pack_codes(codes.data(), bits, static_cast<int64_t>(codes.size()), packed.data());
  QuantWeight w{.element = element, .shape = {1, static_cast<int64_t>(codes.size())}, .group = {1, 4}};
  w.codes = Buffer::copy_of(packed);
  w.scale = {.codec = codec, .data = std::move(scales)};
  return w;
}

TEST(QuantWeight, FloatElementsDecode) {
  const std::vector<uint8_t> halves(16, 126);  // 2^-1
  const auto check = [&](Element element, auto decode) {
    const size_t count = size_t{1} << element_info(element).bits;
    const QuantWeight w =
        every_code(element, ScaleCodec::kE8M0, Buffer::copy_of(std::span(halves).first(count / 4)));
    const std::vector<float> values = dequantize(w);
    for (size_t code = 0; code < count; ++code)
      EXPECT_EQ(values[code], 0.5f * decode(static_cast<uint8_t>(code))) << element_info(element).name;
    EXPECT_NO_THROW(validate(w, "sample"));
  };
  check(Element::kE2M1, e2m1_to_float);
  check(Element::kE2M3, e2m3_to_float);
  check(Element::kE3M2, e3m2_to_float);
  check(Element::kNF4, nf4_to_float);
  check(Element::kFP4, fp4_to_float);
}

TEST(QuantWeight, ScalesOfOneByteDecode) {
  const std::vector<uint8_t> scales = {0x38, 0x01, 0x7e, 0xc0};  // 1, 2^-9, 448, -2
  QuantWeight w = every_code(Element::kE2M1, ScaleCodec::kE4M3FN, Buffer::copy_of(scales));
  w.scale.super = std::make_unique<Scales>();
  w.scale.super->data = Buffer::copy_of(std::vector<float>{0.25f});
  const std::vector<float> values = dequantize(w);
  EXPECT_EQ(values[3], 1.5f * 0.25f);
  EXPECT_EQ(values[7], 6.0f * 0x1p-11f);
  EXPECT_EQ(values[9], -0.5f * 112.0f);
  EXPECT_EQ(values[15], -6.0f * -0.5f);
}

TEST(QuantWeight, IntegerScalesDecode) {
  const std::vector<uint8_t> scales = {1, 63, 15, 0x80};
  QuantWeight w = every_code(Element::kE2M1, ScaleCodec::kI8, Buffer::copy_of(scales));
  EXPECT_NO_THROW(validate(w, "sample"));
  const std::vector<float> signed_values = {1, 63, 15, -128}, unsigned_values = {1, 63, 15, 128};
  EXPECT_EQ(decode_scales(w.scale), signed_values);
  for (const auto& [codec, refusal] :
       {std::pair{ScaleCodec::kU6, "file: scales have the code 128, expected at most 63"},
        {ScaleCodec::kU4, "file: scales have the code 63, expected at most 15"}}) {
    w.scale.codec = codec;
    EXPECT_EQ(decode_scales(w.scale), unsigned_values);
    try {
      validate(w, "file");
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), refusal);
    }
  }
}

TEST(QuantWeight, CodesAndScalesThatAreNaNAreRefused) {
  const auto refusal = [](const QuantWeight& w) {
    try {
      validate(w, "file");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::vector<uint8_t> ones(64, 127);
  EXPECT_EQ(refusal(every_code(Element::kE4M3FN, ScaleCodec::kE8M0, Buffer::copy_of(ones))),
            "file: the code of row 0, column 127 is not a finite number");
  EXPECT_EQ(refusal(every_code(Element::kE5M2, ScaleCodec::kE8M0, Buffer::copy_of(ones))),
            "file: the code of row 0, column 124 is not a finite number");
  const std::vector<uint8_t> nan = {127, 255, 127, 127};
  EXPECT_EQ(refusal(every_code(Element::kE2M1, ScaleCodec::kE8M0, Buffer::copy_of(nan))),
            "file: entry 1 of 4 scales is not finite");
  EXPECT_EQ(refusal(every_code(Element::kE2M1, ScaleCodec::kE4M3FN, Buffer::copy_of(nan))),
            "file: entry 0 of 4 scales is not finite");
  const std::vector<uint8_t> zero = {0x38, 0x38, 0, 0x38};
  EXPECT_EQ(refusal(every_code(Element::kE2M1, ScaleCodec::kE4M3FN, Buffer::copy_of(zero))),
            "file: the scale of row 0, group 2 is zero but its codes are not");
}

TEST(QuantWeight, InputMultipliersBelongToTheMatrix) {
  Sample sample = make_sample({4, ScaleCodec::kF32, {1, 72}, false});
  const std::vector<float> plain = dequantize(sample.weight);
  for (int k = 0; k < 72; ++k) sample.weight.input_multiplier.push_back(0.3f * static_cast<float>(k + 1));
  EXPECT_NO_THROW(validate(sample.weight, "sample"));
  const std::vector<float> values = dequantize(sample.weight);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], plain[i] * sample.weight.input_multiplier[i % 72]);
}

TEST(QuantWeight, SizeCountsCodesScalesAndZeros) {
  const Sample sample = make_sample({3, ScaleCodec::kF16, {1, 24}, true});
  EXPECT_EQ(sample.weight.size_bytes(), 8u * 27u + 8u * 3u * 2u + 8u * 3u);
}

template <class Break>
std::string complaint(Break break_it, WeightCase which = {4, ScaleCodec::kF16, {1, 24}, true}) {
  Sample sample = make_sample(which);
  break_it(sample.weight);
  try {
    validate(sample.weight, "file: layer 'x'");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kBadFile);
    return e.what();
  }
  return "";
}

TEST(QuantWeight, WrongSizesAreRefused) {
  EXPECT_EQ(complaint([](QuantWeight& w) { w.codes = Buffer::copy_of(std::vector<uint8_t>(5)); }),
            "file: layer 'x': codes take 5 bytes, expected 288");
  EXPECT_EQ(complaint([](QuantWeight& w) { w.scale.data = Buffer::copy_of(std::vector<uint16_t>(23)); }),
            "file: layer 'x': scales take 46 bytes, expected 48");
  EXPECT_EQ(
      complaint([](QuantWeight& w) { w.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>(2))}; }),
      "file: layer 'x': 2 zero points, expected 24");
  EXPECT_EQ(complaint([](QuantWeight& w) { w.group = {0, 24}; }), "file: layer 'x': group [0, 24] is empty");
  EXPECT_EQ(complaint([](QuantWeight& w) {
              w.shape = {0, 72};
            }),
            "file: layer 'x': shape [0, 72] has no elements");
}

TEST(QuantWeight, ValuesThatAreNoScaleAreRefused) {
  const auto with_scale = [](uint16_t bits) {
    return complaint([bits](QuantWeight& w) {
      std::vector<uint16_t> scales(24, 0x3c00);
      scales[7] = bits;
      w.scale.data = Buffer::copy_of(scales);
    });
  };
  EXPECT_EQ(with_scale(0x7e00), "file: layer 'x': entry 7 of 24 scales is not finite");
  EXPECT_EQ(with_scale(0xfc00), "file: layer 'x': entry 7 of 24 scales is not finite");
  EXPECT_EQ(with_scale(0x0000), "file: layer 'x': the scale of row 2, group 1 is zero but its codes are not");
  EXPECT_EQ(with_scale(0x0001), "");
}

TEST(QuantWeight, ZeroScaleOverZeroCodesIsZero) {
  Sample sample = make_sample({4, ScaleCodec::kF16, {1, 72}, false}, {1, 72});
  sample.weight.codes = Buffer::copy_of(std::vector<uint8_t>(36, 0x88));
  sample.weight.scale.data = Buffer::copy_of(std::vector<uint16_t>{0});
  EXPECT_NO_THROW(validate(sample.weight, "sample"));
  for (const float value : dequantize(sample.weight)) EXPECT_EQ(value, 0.0f);
}

TEST(QuantWeight, ZeroPointsBeyondTheElementAreRefused) {
  EXPECT_EQ(complaint([](QuantWeight& w) {
              w.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>(24, 16))};
            }),
            "file: layer 'x': zero point 16 is out of range 0 to 15");
}

TEST(QuantWeight, OrdersThatAreNoPermutationAreRefused) {
  EXPECT_EQ(complaint([](QuantWeight& w) { w.permutation.assign(72, 3); }),
            "file: layer 'x': the activation order is not a permutation at 3");
  EXPECT_EQ(complaint([](QuantWeight& w) { w.permutation = {0}; }),
            "file: layer 'x': the activation order has 1 entries, expected 72");
}

TEST(QuantWeight, InputMultipliersThatLoseAChannelAreRefused) {
  EXPECT_EQ(complaint([](QuantWeight& w) { w.input_multiplier.assign(71, 1.0f); }),
            "file: layer 'x': 71 input multipliers, expected 72");
  for (const float bad : {0.0f, std::numeric_limits<float>::infinity()})
    EXPECT_EQ(complaint([&](QuantWeight& w) {
                w.input_multiplier.assign(72, 1.0f);
                w.input_multiplier[5] = bad;
              }),
              cat("file: layer 'x': the input multiplier of channel 5 is ", bad));
}

TEST(QuantWeight, SecondLevelMustDivide) {
  EXPECT_EQ(complaint([](QuantWeight& w) {
              w.scale.super = std::make_unique<Scales>();
              w.scale.super->data = Buffer::copy_of(std::vector<float>(5, 1.0f));
            }),
            "file: layer 'x': 5 second-level scales do not divide 24");
}

}  // namespace
}  // namespace quaver
