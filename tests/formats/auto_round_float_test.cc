// AutoRound checkpoints of floats and power-of-two scaled integers: values, inputs, rules, and what is
// refused.
#include "formats/auto_round.h"
#include "numerics/half.h"
#include "scaled_fixture.h"

namespace quaver {
namespace {

using testing::HasSubstr;
using Mode = ActivationQuant::Mode;

json float_settings(const char* type, int bits, int64_t group, json more = json::object()) {
  json value = {{"quant_method", "auto-round"}, {"data_type", type}, {"bits", bits}, {"group_size", group}};
  value.update(more);
  return {{"quantization_config", value}};
}

// Byte j of the codes is j.
void add_nibbles(MemoryCheckpoint& checkpoint, const std::string& layer, int64_t group,
                 const std::vector<uint8_t>& scales) {
  const auto columns = static_cast<int64_t>(scales.size()) * group;
  checkpoint.add(layer + ".weight_packed", DType::kU8, {1, columns / 2}, counted_bytes(columns / 2, 256));
  checkpoint.add(layer + ".weight_scale", DType::kU8, {1, columns / group}, scales);
}

TEST(AutoRoundFloats, PowersOfTwoScaleGroupsOf32) {
  MemoryCheckpoint checkpoint(float_settings("mx_fp", 4, 32));
  add_nibbles(checkpoint, "layer", 32, {127, 129});
  const std::vector<float> values = dequantize(load(checkpoint, "layer"));
  EXPECT_EQ(values[14], 6.0f);      // byte 7, low half
  EXPECT_EQ(values[30], -6.0f);     // byte 15, low half
  EXPECT_EQ(values[34], 4 * 0.5f);  // byte 17 = 0x11
  EXPECT_EQ(values[35], 4 * 0.5f);
}

TEST(AutoRoundFloats, UnsignedE5m3ScalesGroupsOf16) {
  MemoryCheckpoint checkpoint(
      float_settings("nvfp4_v2", 4, 16, {{"packing_format", "auto_round:llm_compressor_nvfp4_e5m3"}}));
  add_nibbles(checkpoint, "layer", 16, {15 << 3, 16 << 3 | 4});  // 1 and 3
  const std::vector<float> values = dequantize(load(checkpoint, "layer"));
  EXPECT_EQ(values[14], 6.0f);
  EXPECT_EQ(values[30], 3.0f * -6.0f);
}

TEST(AutoRoundFloats, SignAndMagnitudeInQuarters) {
  MemoryCheckpoint checkpoint(float_settings(
      "mx_int", 4, 32, {{"packing_format", "auto_round"}, {"act_bits", 4}, {"act_data_type", "mx_int"}}));
  add_nibbles(checkpoint, "layer", 32, {128});
  const QuantWeight weight = load(checkpoint, "layer");
  const std::vector<float> values = dequantize(weight);
  for (size_t k = 0; k < 32; ++k) {
    const int nibble = static_cast<int>(k % 2 ? (k / 2) >> 4 : (k / 2) & 15);
    EXPECT_EQ(values[k], 2.0f * static_cast<float>(nibble & 8 ? -(nibble & 7) : nibble) / 4) << k;
  }
  EXPECT_EQ(weight.activation, (ActivationQuant{.mode = Mode::kDynamic,
                                                .element = Element::kInt4,
                                                .group = 32,
                                                .narrow = true,
                                                .scale = ScaleCodec::kE8M0,
                                                .super_scale = 0.25f}));
}

TEST(AutoRoundFloats, EightBitsMayLieInBf16) {
  const auto add = [](MemoryCheckpoint& checkpoint, const std::vector<uint16_t>& stored) {
    checkpoint.add("layer.weight", DType::kBF16, {1, 32}, stored);
    checkpoint.add("layer.weight_scale", DType::kU8, {1, 1}, std::vector<uint8_t>{126});
  };
  std::vector<uint16_t> stored(32, float_to_bf16(-416));
  MemoryCheckpoint checkpoint(float_settings("mx_fp_rceil", 8, 32));
  add(checkpoint, stored);
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(weight.element, Element::kE4M3FN);
  EXPECT_EQ(dequantize(weight)[5], -208);

  stored[7] = float_to_bf16(0.3f);
  MemoryCheckpoint between(float_settings("mx_fp", 8, 32));
  add(between, stored);
  EXPECT_THAT(load_error(between), HasSubstr("at element 7, which is no e4m3fn value"));
}

TEST(AutoRoundFloats, ScaleThatIsNoNumberIsRefused) {
  MemoryCheckpoint checkpoint(float_settings("mx_fp", 4, 32));
  add_nibbles(checkpoint, "layer", 32, {255, 127});
  EXPECT_EQ(load_error(checkpoint),
            "memory/model.safetensors: layer 'layer' (weight_packed, weight_scale): entry 0 of 2 scales is "
            "not finite");
}

TEST(AutoRoundFloats, InputsByTheirKeys) {
  const auto activation = [](json more) {
    MemoryCheckpoint checkpoint(float_settings("fp", 8, 0, std::move(more)));
    add_float8(checkpoint, 4, 8);
    add_floats(checkpoint, "layer.weight_scale", {1});
    return load(checkpoint, "layer").activation;
  };
  EXPECT_EQ(activation(json::object()).mode, Mode::kNone);
  EXPECT_EQ(activation({{"act_bits", 16}}).mode, Mode::kNone);
  for (const int64_t group : {-1, 0, 128})
    EXPECT_EQ(activation({{"act_bits", 8}, {"act_data_type", "fp"}, {"act_group_size", group}}),
              (ActivationQuant{.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = group}));
  EXPECT_EQ(
      activation({{"act_bits", 8}, {"act_data_type", "mx_fp"}, {"act_group_size", 32}}),
      (ActivationQuant{
          .mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = 32, .scale = ScaleCodec::kE8M0}));
  EXPECT_EQ(
      activation({{"act_bits", 8}, {"act_data_type", "mx_fp_rceil"}, {"act_group_size", 32}}).power_of_two,
      PowerOfTwo::kFit);
}

// One layer is wider, one plain.
TEST(AutoRoundFloats, ExtraConfigOverridesFloats) {
  MemoryCheckpoint checkpoint(float_settings(
      "mx_fp", 4, 32,
      {{"extra_config",
        {{"wide", {{"bits", 8}, {"sym", nullptr}}}, {"lm_head", {{"bits", 16}, {"data_type", "fp"}}}}}}));
  add_nibbles(checkpoint, "narrow", 32, {127});
  checkpoint.add("wide.weight", DType::kF8E4M3, {1, 32}, counted_bytes(32));
  checkpoint.add("wide.weight_scale", DType::kU8, {1, 1}, std::vector<uint8_t>{127});
  checkpoint.add("lm_head.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  EXPECT_EQ(load(checkpoint, "narrow").element, Element::kE2M1);
  EXPECT_EQ(load(checkpoint, "wide").element, Element::kE4M3FN);
  EXPECT_TRUE(kAutoRoundFormat.plan(checkpoint, "lm_head").tensors.empty());
  EXPECT_EQ(quantized_layers(checkpoint, kAutoRoundFormat), (std::vector<std::string>{"narrow", "wide"}));
}

TEST(AutoRoundFloats, WhatIsNotSupportedIsNamed) {
  const std::pair<json, const char*> cases[] = {
      {float_settings("mx_fp", 6, 32), "data_type 'mx_fp' with 6 bits is not supported"},
      {float_settings("fp", 4, 32), "data_type 'fp' with 4 bits is not supported"},
      {float_settings("mx_fp", 4, 64), "group_size 64 is not supported for data_type 'mx_fp*'; 32 is"},
      {float_settings("fp", 8, -2), "group_size -2"},
      {float_settings("fp", 8, 0, {{"group_size", {128, 0}}}), "group_size [128, 0]"},
      {float_settings("nv_fp", 4, 16, {{"sym", false}}), "sym false is not supported"},
      {float_settings("mx_fp", 4, 32, {{"act_bits", 4}, {"act_data_type", "mx_fp"}, {"act_group_size", 64}}),
       "act_group_size 64 is not supported for act_data_type 'mx_fp*'"},
      {float_settings("mx_fp", 4, 32, {{"act_bits", 8}, {"act_data_type", "int"}}),
       "act_data_type 'int' with 8 bits is not supported"},
      {float_settings("mx_fp", 4, 32, {{"act_bits", 4}, {"act_data_type", "mx_fp"}, {"act_dynamic", false}}),
       "act_dynamic false is supported for 8-bit floats with one scale only"},
      // Integers among floats need a packing that names their layout.
      {float_settings("mx_fp", 4, 32,
                      {{"packing_format", "auto_round:llm_compressor"},
                       {"extra_config", {{"a", {{"bits", 4}, {"data_type", "int"}}}}}}),
       "packing_format 'auto_round:llm_compressor' is not supported"}};
  for (const auto& [config, message] : cases) {
    MemoryCheckpoint checkpoint(config);
    EXPECT_THAT(error_of([&] { detect_format(checkpoint); }), HasSubstr(message));
  }
}

WeightScheme mx(Element element) {
  WeightScheme scheme{.element = element, .group = {1, 32}, .scale = ScaleCodec::kE8M0};
  if (element == Element::kE2M1) scheme.storage = CodeStorage::kNibbles;
  scheme.activation = {
      .mode = ActivationQuant::Mode::kDynamic, .element = element, .group = 32, .scale = ScaleCodec::kE8M0};
  return scheme;
}

// A head lies outside the blocks, and layers of another width say all that differs.
TEST(AutoRoundFloats, OtherSchemesAndTheHeadAreNamedWithAllTheirSettings) {
  const Recipe recipe{.block_names = {"model.layers"},
                      .scheme = mx(Element::kE2M1),
                      .form_overrides = {{"model.layers.0.a", mx(Element::kE4M3FN)}},
                      .layers = {"model.layers.0.a", "model.layers.0.b", "lm_head"}};
  const json config = kAutoRoundFormat.config_json(recipe);
  EXPECT_EQ(config.at("packing_format"), "auto_round:llm_compressor");
  ASSERT_EQ(config.at("extra_config").size(), 2u);
  for (const auto& [layer, bits] : {std::pair("lm_head", 4), {"model.layers.0.a", 8}}) {
    const json& body = config.at("extra_config").at(layer);
    EXPECT_EQ(body.at("bits"), bits) << layer;
    EXPECT_EQ(body.at("act_bits"), bits) << layer;
    EXPECT_EQ(body.at("data_type"), "mx_fp") << layer;
    EXPECT_FALSE(body.contains("packing_format")) << layer;
  }
  EXPECT_EQ(form_of_layer(recipe, "model.layers.0.a")->element, Element::kE4M3FN);
  EXPECT_EQ(form_of_layer(recipe, "model.layers.0.b")->element, Element::kE2M1);
}

TEST(AutoRoundFloats, SchemesOfAnotherPackingAreRefused) {
  Recipe recipe{.scheme = mx(Element::kE2M1)};
  recipe.form_overrides["a"] = {.element = Element::kE4M3FN, .group = {}, .scale = ScaleCodec::kBF16};
  EXPECT_EQ(error_of([&] { kAutoRoundFormat.config_json(recipe); }),
            "layer 'a' as e4m3fn with one scale beside e2m1 in groups of 32: this format has one packing for "
            "all layers");
  recipe.form_overrides["a"] = {.element = Element::kInt4, .storage = CodeStorage::kWords, .group = {1, 128}};
  EXPECT_THAT(error_of([&] { kAutoRoundFormat.config_json(recipe); }),
              HasSubstr("'a' as int4 in groups of 128"));
  recipe.scheme.reset();
  recipe.form_overrides["a"] = mx(Element::kE2M1);
  EXPECT_EQ(
      error_of([&] { kAutoRoundFormat.config_json(recipe); }),
      "layer 'a' as e2m1 in groups of 32 beside others: this format holds nothing else beside weight-only "
      "integers");
}

TEST(AutoRoundFloats, CacheOfEightBits) {
  const auto cache = [](json more) {
    MemoryCheckpoint checkpoint(float_settings("fp", 8, 0, std::move(more)));
    return kAutoRoundFormat.kv_cache(checkpoint);
  };
  EXPECT_TRUE(cache({{"static_kv_dtype", "fp8"}}).has_value());
  EXPECT_FALSE(cache(json::object()).has_value());
  EXPECT_THAT(error_of([&] { cache({{"static_kv_dtype", "nvfp4"}}); }), HasSubstr("static_kv_dtype 'nvfp4'"));
}

}  // namespace
}  // namespace quaver
