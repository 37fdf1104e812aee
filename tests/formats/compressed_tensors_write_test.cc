// What compressed-tensors writes reads back as it was, by its own settings.
#include <map>

#include "formats/compressed_tensors.h"
#include "formats/compressed_tensors_config.h"
#include "scaled_fixture.h"

namespace quaver {
namespace {

using testing::HasSubstr;
using Mode = ActivationQuant::Mode;

struct Writable {
  const char* name;
  WeightScheme scheme;
};

ActivationQuant float8_input(int64_t group, ScaleCodec scale = ScaleCodec::kF32) {
  ActivationQuant input{.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = group, .scale = scale};
  if (scale == ScaleCodec::kE8M0) input.power_of_two = kCompressedTensorsFormat.input_power;
  return input;
}

ActivationQuant float4_input(int64_t group, ScaleCodec scale) {
  ActivationQuant input{.mode = Mode::kDynamic, .element = Element::kE2M1, .group = group, .scale = scale};
  if (scale == ScaleCodec::kE8M0) {
    input.power_of_two = kCompressedTensorsFormat.input_power;
    return input;
  }
  input.super_divisor = 7;
  input.super_scale = 1.0f / 7;
  return input;
}

std::vector<Writable> writables() {
  using enum ScaleCodec;
  using Storage = CodeStorage;
  return {{"W4A16", {.element = Element::kInt4, .storage = Storage::kWords, .group = {1, 128}}},
          {"W3A16", {.element = Element::kInt3, .storage = Storage::kWords, .group = {1, 64}}},
          {"W8A8",
           {.element = Element::kInt8, .group = {1, 0}, .activation = {.mode = Mode::kDynamic, .group = -1}}},
          {"FP8_DYNAMIC", {.group = {1, 0}, .activation = float8_input(-1)}},
          {"FP8_STATIC",
           {.activation = {.mode = Mode::kStatic, .element = Element::kE4M3FN, .static_scale = 0.37f}}},
          {"FP8_BLOCK", {.group = {128, 128}, .activation = float8_input(128)}},
          {"MXFP8", {.group = {1, 32}, .scale = kE8M0, .activation = float8_input(32, kE8M0)}},
          {"MXFP4",
           {.element = Element::kE2M1,
            .storage = Storage::kNibbles,
            .group = {1, 32},
            .scale = kE8M0,
            .activation = float4_input(32, kE8M0)}},
          {"NVFP4",
           {.element = Element::kE2M1,
            .storage = Storage::kNibbles,
            .group = {1, 16},
            .scale = kE4M3FN,
            .has_divisor = true,
            .activation = float4_input(16, kE4M3FN)}}};
}

QuantWeight weight_of(const WeightScheme& scheme, Extent2d shape) {
  QuantWeight weight{.element = scheme.element, .shape = shape};
  weight.group = {scheme.group.rows ? scheme.group.rows : shape.rows,
                  scheme.group.cols ? scheme.group.cols : shape.cols};
  weight.codes = Buffer::copy_of(counted_bytes(shape.rows * weight.row_bytes(), 100));
  const ScaleCodec codec = scheme.scale.value_or(ScaleCodec::kBF16);
  const int64_t scales = weight.num_group_rows() * weight.num_group_cols() * scale_codec_info(codec).bytes;
  weight.scale = {.codec = codec,
                  .data = Buffer::copy_of(std::vector<uint8_t>(static_cast<size_t>(scales), 0x3a))};
  if (scheme.has_divisor)
    weight.scale.super =
        std::make_unique<Scales>(Scales{.data = Buffer::copy_of(std::vector<float>{1.0f / 3}), .divisor = 3});
  weight.activation = scheme.activation;
  return weight;
}

TEST(CompressedTensorsWrite, EverySchemeReadsBack) {
  const Extent2d shape{128, 256};
  for (const auto& [name, scheme] : writables()) {
    const QuantWeight weight = weight_of(scheme, shape);
    const Recipe recipe{.plain_modules = {"lm_head"}, .scheme = scheme};
    MemoryCheckpoint checkpoint(json{{"quantization_config", kCompressedTensorsFormat.config_json(recipe)}});
    for (NamedTensor& tensor : kCompressedTensorsFormat.pack(weight, "layer", recipe))
      checkpoint.add(tensor.name, std::move(tensor.tensor));
    const QuantWeight back = load(checkpoint, "layer", shape);
    EXPECT_EQ(dequantize(back), dequantize(weight)) << name;
    EXPECT_EQ(back.group, weight.group) << name;
    EXPECT_EQ(back.scale.codec, weight.scale.codec) << name;
    EXPECT_EQ(back.activation, weight.activation) << name;
  }
}

TEST(CompressedTensorsWrite, OverridesBecomeGroupsAndPlainLayersAreIgnored) {
  const Recipe recipe{.layer_overrides = {{"a", {{"bits", 8}}}, {"b", {{"bits", 16}}}, {"c", {{"bits", 8}}}},
                      .plain_modules = {"lm_head"}};
  const json config = kCompressedTensorsFormat.config_json(recipe);
  EXPECT_EQ(config.at("ignore"), json::array({"lm_head", "b"}));
  EXPECT_EQ(config.at("format"), "mixed-precision");
  EXPECT_EQ(config.at("config_groups").size(), 2u);
  EXPECT_EQ(config.at("config_groups").at("group_0").at("targets"), json::array({"a", "c"}));
  EXPECT_EQ(config.at("config_groups").at("group_0").at("weights").at("num_bits"), 8);
  EXPECT_EQ(config.at("config_groups").at("group_1").at("targets"), json::array({"Linear"}));
}

// Layers of one width share a group only where their inputs are treated alike; a head is named.
TEST(CompressedTensorsWrite, EveryMixOfSchemesReadsBack) {
  const Extent2d shape{128, 256};
  Recipe recipe{.block_names = {"blocks"}, .scheme = writables().front().scheme, .layers = {"lm_head"}};
  std::map<std::string, QuantWeight> weights;
  weights.emplace("lm_head", weight_of(*recipe.scheme, shape));
  for (const auto& [name, scheme] : writables()) {
    recipe.form_overrides[cat("blocks.", name)] = scheme;
    weights.emplace(cat("blocks.", name), weight_of(scheme, shape));
  }
  recipe.form_overrides["blocks.plain_input"] = {.group = {1, 0}};  // but for the input FP8_DYNAMIC
  weights.emplace("blocks.plain_input", weight_of(recipe.form_overrides["blocks.plain_input"], shape));
  const json config = kCompressedTensorsFormat.config_json(recipe);
  EXPECT_EQ(config.at("config_groups").size(), writables().size() + 2);
  MemoryCheckpoint checkpoint(json{{"quantization_config", config}});
  for (const auto& [name, weight] : weights)
    for (NamedTensor& tensor : kCompressedTensorsFormat.pack(weight, name, recipe))
      checkpoint.add(tensor.name, std::move(tensor.tensor));
  for (const auto& [name, weight] : weights) {
    const QuantWeight back = load(checkpoint, name, shape);
    EXPECT_EQ(dequantize(back), dequantize(weight)) << name;
    EXPECT_EQ(back.activation, weight.activation) << name;
  }
  EXPECT_TRUE(kCompressedTensorsFormat.unmatched_rules(checkpoint).empty());
  EXPECT_TRUE(compressed_settings(checkpoint)->candidates("lm_head").front().named);
}

TEST(CompressedTensorsWrite, CacheOfEightBitsReadsBack) {
  const Recipe recipe{.fp8_kv_cache = true};
  MemoryCheckpoint checkpoint(json{{"quantization_config", kCompressedTensorsFormat.config_json(recipe)}});
  for (NamedTensor& tensor : kCompressedTensorsFormat.pack_kv("attn", {.k = 0.5f, .v = 2.0f}))
    checkpoint.add(tensor.name, std::move(tensor.tensor));
  EXPECT_TRUE(kCompressedTensorsFormat.kv_cache(checkpoint).has_value());
  EXPECT_EQ(read_kv_scales(checkpoint, "attn").k, std::vector<float>{0.5f});
  EXPECT_EQ(read_kv_scales(checkpoint, "attn").v, std::vector<float>{2.0f});
}

// Key for key.
TEST(CompressedTensorsWrite, ConfigIsThatOfTheTool) {
  const auto checkpoint =
      open_hugging_face_folder(cat(QUAVER_TEST_DATA, "/fixtures/checkpoints/autoround-ct-int8-w8a8"));
  const LayerPlan plan = kCompressedTensorsFormat.plan(*checkpoint, "model.layers.0.mlp.down_proj");
  const Recipe recipe{.plain_modules = {"lm_head"}, .scheme = scheme_from_json(plan.scheme)};
  EXPECT_EQ(kCompressedTensorsFormat.config_json(recipe), checkpoint->config().at("quantization_config"));
}

TEST(CompressedTensorsWrite, WhatTheFormatLacksIsRefused) {
  const QuantWeight weight = weight_of({.element = Element::kNF4, .group = {1, 32}}, {4, 64});
  EXPECT_THAT(error_of([&] { kCompressedTensorsFormat.pack(weight, "layer", {}); }),
              HasSubstr("layer 'layer': this format has no nf4"));
}

// compressed-tensors 0.20 raises for them when it unpacks the weight, or when it quantizes an input.
TEST(CompressedTensorsWrite, ShortLastGroupsAreRefused) {
  for (const auto& [name, scheme] : writables()) {
    if (scheme.group.cols == 0) continue;
    const int64_t in = scheme.group.cols + 8;
    EXPECT_THAT(error_of([&] {
                  kCompressedTensorsFormat.pack(weight_of(scheme, {128, in}), "layer", {.scheme = scheme});
                }),
                HasSubstr(cat("layer 'layer': ", in, " input channels are no whole number of groups of ",
                              scheme.group.cols)))
        << name;
  }
}

}  // namespace
}  // namespace quaver
