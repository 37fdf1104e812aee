// Schemes by layer under a mean of bits: what is counted, what moves together, what is left alone.
#include "quantize/scheme_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace quaver::quantize {
namespace {

using testing::HasSubstr;

LayerShape layer(std::string name, std::string fused = "") {
  return {.name = std::move(name), .out = 128, .in = 256, .fused = std::move(fused)};
}

TEST(SchemeMix, BitsCountScalesAndZeroPoints) {
  const LayerShape shape = layer("a");
  const double weights = 128 * 256;
  const auto mean = [&](const char* scheme) { return bits_of(scheme_from_name(scheme), shape) / weights; };
  EXPECT_DOUBLE_EQ(mean("W4A16"), 4 + (16 + 4) / 128.0);
  EXPECT_DOUBLE_EQ(mean("W2A16G64"), 2 + (16 + 2) / 64.0);
  EXPECT_DOUBLE_EQ(mean("MXFP4"), 4 + 8 / 32.0);
  EXPECT_DOUBLE_EQ(mean("NVFP4"), 4 + 8 / 16.0);
  EXPECT_DOUBLE_EQ(mean("FP8_STATIC"), 8 + 16 / 256.0);
  EXPECT_DOUBLE_EQ(mean("FP8_TENSOR"), 8 + 16 / weights);
  EXPECT_DOUBLE_EQ(mean("FP8_BLOCK"), 8 + 2 * 16 / weights);
  EXPECT_DOUBLE_EQ(mean("BF16"), 16);
}

struct Mixed {
  std::vector<LayerShape> shapes;
  LayerRules rules;
  std::map<std::string, std::vector<double>> losses;
  std::vector<Scheme> options = {scheme_from_name("W2A16"), scheme_from_name("W4A16")};

  MixedBits at(double mean) const {
    return mix_schemes(shapes, decide_layers(rules, shapes), options, losses, mean);
  }
  static std::vector<int> bits(const MixedBits& mixed) {
    std::vector<int> all;
    for (const LayerDecision& decision : mixed.decisions) all.push_back(decision.scheme.bits);
    return all;
  }
};

TEST(SchemeMix, TheMostSensitiveGetsTheBitsAndFusedLayersAgree) {
  const Mixed mixed{.shapes = {layer("b.0.q", "0"), layer("b.0.k", "0"), layer("b.0.o"), layer("b.0.d")},
                    .losses = {{"b.0.q", {5, 1}}, {"b.0.k", {0, 0}}, {"b.0.o", {3, 1}}, {"b.0.d", {4, 1}}}};
  const MixedBits result = mixed.at(3.2);
  EXPECT_EQ(Mixed::bits(result),
            (std::vector<int>{2, 2, 4, 4}));  // 5 more for q and k together, 5 for o and d
  EXPECT_LE(result.bits, 3.2);
  EXPECT_DOUBLE_EQ(result.loss, 5 + 1 + 1);
  EXPECT_EQ(result.summary,
            "3.148 bits on average, predicted loss 7: 2 layers W2A16 g128 sym, 2 layers W4A16 g128 sym");
  EXPECT_EQ(Mixed::bits(mixed.at(4.2)), (std::vector<int>{4, 4, 4, 4}));
}

TEST(SchemeMix, ExpertsOfABlockAreOnePart) {
  Mixed mixed;
  for (const char* name :
       {"b.0.mlp.experts.0.up", "b.0.mlp.experts.1.up", "b.0.mlp.experts.1.down", "b.1.mlp.experts.0.up"})
    mixed.shapes.push_back(layer(name, name)), mixed.losses[name] = {1, 0};
  mixed.losses["b.0.mlp.experts.0.up"] = {9, 0};
  EXPECT_EQ(Mixed::bits(mixed.at(3.8)), (std::vector<int>{4, 4, 4, 2}));
  EXPECT_EQ(Mixed::bits(mixed.at(3.6)), (std::vector<int>{2, 2, 2, 4}));
}

TEST(SchemeMix, RulesStandAndCount) {
  const Mixed mixed{.shapes = {layer("a"), layer("b"), layer("c"), layer("head")},
                    .rules = {.layer_config = {{"a", "W8A16"}}, .ignore_layers = {"c"}},
                    .losses = {{"a", {1, 0}}, {"b", {1, 0}}, {"c", {1, 0}}}};
  const MixedBits result = mixed.at(5.0);  // of a: 8, of the head: 4, so that b can have 2
  EXPECT_EQ(Mixed::bits(result), (std::vector<int>{8, 2, 16, 4}));
  EXPECT_THAT(result.decisions[0].reason, HasSubstr("layer_config"));
  EXPECT_THAT(result.decisions[3].reason, HasSubstr("most bits"));
}

TEST(SchemeMix, AMeanThatCantBeHadIsRefused) {
  const Mixed mixed{.shapes = {layer("a")}, .losses = {{"a", {1, 0}}}};
  try {
    mixed.at(2.1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "--avg_bits 2.1 can't be had: the smallest options take 2.140625 bits for each weight, scales "
        "included");
  }
}

TEST(SchemeMix, DefaultOptionsAreTheFamilysWidths) {
  Scheme base = scheme_from_name("W4A16");
  base.group_size = 64, base.sym = false;
  const std::vector<Scheme> options = default_options(base);
  ASSERT_EQ(options.size(), 3u);
  for (const Scheme& option : options) EXPECT_TRUE(option.group_size == 64 && !option.sym);
  EXPECT_EQ(default_options(scheme_from_name("MXFP8")).size(), 2u);
  EXPECT_THROW(default_options(scheme_from_name("FP8_BLOCK")), Error);
}

}  // namespace
}  // namespace quaver::quantize
