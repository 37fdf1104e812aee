// Model Optimizer's files: values, activations, caches, what is written, and what is refused.
#include "formats/modelopt.h"

#include "tool_fixture.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

struct Case {
  const char* folder;
  bool writable;
};

constexpr Case kCases[] = {
    {"modelopt-fp8-kv-fp8", true}, {"modelopt-fp8-pc-pt", true},
    {"modelopt-fp8-pb-wo", false}, {"modelopt-nvfp4-kv-fp8", true},
    {"modelopt-mixed", true},      {"modelopt-mxfp4", false},
    {"modelopt-mxfp8", false},     {"modelopt-int8-smoothquant", false},
    {"modelopt-int4-awq", false},  {"modelopt-w4a8-awq", false},
};

class ModelOpt : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Checkpoint> checkpoint_ = open_hugging_face_folder(tool_folder(GetParam().folder));
};

TEST_P(ModelOpt, ValuesAreThoseOfTheTool) {
  ASSERT_STREQ(detect_format(*checkpoint_)->name, "modelopt");
  expect_tool_weights(*checkpoint_, GetParam().folder);
}

TEST_P(ModelOpt, EveryTensorIsUsedOnce) { expect_all_tensors_used(*checkpoint_); }

TEST_P(ModelOpt, PackingWhatWasUnpackedGivesTheSameBytes) {
  if (!GetParam().writable) return;
  const auto layers = quantized_layers(*checkpoint_, kModelOptFormat);
  ASSERT_GE(layers.size(), 7u);
  for (const std::string& layer : layers) {
    const auto packed = kModelOptFormat.pack(load(*checkpoint_, layer), layer, {});
    EXPECT_EQ(packed.size(), kModelOptFormat.plan(*checkpoint_, layer).tensors.size()) << layer;
    expect_same_tensors(packed, *checkpoint_);
  }
}

// The trimmed folders lack these two.
TEST_P(ModelOpt, NoRuleIsLeftOver) {
  for (const std::string& rule : kModelOptFormat.unmatched_rules(*checkpoint_))
    EXPECT_TRUE(rule == "lm_head" || rule == "model.embed_tokens") << rule;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ModelOpt, testing::ValuesIn(kCases), [](const auto& fixture) {
  std::string name = fixture.param.folder;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(ModelOptSettings, TheOlderFileIsThatOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(tool_folder("modelopt-fp8-pc-pt"));
  EXPECT_EQ(kModelOptFormat.settings_of_file(checkpoint->config().at("quantization_config")),
            checkpoint->sidecar("hf_quant_config.json"));
}

TEST(ModelOptActivation, IsWhatTheAlgorithmAsksFor) {
  const ActivationQuant e4m3{
      .mode = Mode::kStatic, .element = Element::kE4M3FN, .static_scale = 0x1.36db6ep-7f};
  EXPECT_EQ(load_from("modelopt-fp8-kv-fp8", kQ).activation, e4m3);
  EXPECT_EQ(load_from("modelopt-fp8-pc-pt", kQ).activation,
            (ActivationQuant{.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = -1}));
  const ActivationQuant nvfp4 = load_from("modelopt-nvfp4-kv-fp8", kDown).activation;
  EXPECT_EQ(nvfp4, (ActivationQuant{.mode = Mode::kDynamic,
                                    .element = Element::kE2M1,
                                    .group = 16,
                                    .scale = ScaleCodec::kE4M3FN,
                                    .super_scale = 0x1.8p-10f}));
  EXPECT_EQ(load_from("modelopt-mxfp8", kQ).activation, (ActivationQuant{.mode = Mode::kDynamic,
                                                                         .element = Element::kE4M3FN,
                                                                         .group = 32,
                                                                         .scale = ScaleCodec::kE8M0,
                                                                         .power_of_two = PowerOfTwo::kFit}));
  EXPECT_EQ(load_from("modelopt-int8-smoothquant", kQ).activation.element, Element::kInt8);
  EXPECT_EQ(load_from("modelopt-int8-smoothquant", kQ).activation.mode, Mode::kStatic);
  EXPECT_EQ(load_from("modelopt-w4a8-awq", kQ).activation.element, Element::kE4M3FN);
  for (const char* folder : {"modelopt-fp8-pb-wo", "modelopt-int4-awq", "modelopt-mxfp4"})
    EXPECT_EQ(load_from(folder, kQ).activation, ActivationQuant{}) << folder;
}

TEST(ModelOptMultiplier, StandsWithTheLayersThatHaveOne) {
  EXPECT_TRUE(load_from("modelopt-int4-awq", kQ).input_multiplier.empty());
  const QuantWeight down = load_from("modelopt-int4-awq", kDown);
  ASSERT_EQ(down.input_multiplier.size(), 256u);
  QuantWeight bare = load_from("modelopt-int4-awq", kDown);
  bare.input_multiplier.clear();
  EXPECT_EQ(dequantize(down)[300], dequantize(bare)[300] * down.input_multiplier[44]);
  EXPECT_EQ(load_from("modelopt-int8-smoothquant", kQ).input_multiplier.size(), 128u);
}

TEST(ModelOptCache, IsAnnouncedWhereTheFileSaysSo) {
  const auto fp8 = open_hugging_face_folder(tool_folder("modelopt-fp8-kv-fp8"));
  ASSERT_TRUE(kModelOptFormat.kv_cache(*fp8).has_value());
  EXPECT_EQ(kModelOptFormat.kv_cache(*fp8)->element, Element::kE4M3FN);
  EXPECT_EQ(read_kv_scales(*fp8, "model.layers.0.self_attn").k[0], 0x1.192492p-7f);
  EXPECT_FALSE(kModelOptFormat.kv_cache(*open_hugging_face_folder(tool_folder("modelopt-mxfp8"))));
}

TEST(ModelOptConfig, OlderLayoutMeansTheSame) {
  for (const Case& which : kCases) {
    const auto flat = open_hugging_face_folder(tool_folder(which.folder));
    FixtureCopy old(*flat, [](json& config) { config.erase("quantization_config"); });
    old.add_sidecar("hf_quant_config.json", flat->sidecar("hf_quant_config.json"));
    ASSERT_STREQ(detect_format(old)->name, "modelopt") << which.folder;
    EXPECT_EQ(dequantize(load(old, kDown)), dequantize(load(*flat, kDown))) << which.folder;
  }
}

TEST(ModelOptConfig, ProducerStandsInForAMethod) {
  const auto flat = open_hugging_face_folder(tool_folder("modelopt-fp8-pc-pt"));
  FixtureCopy unnamed(*flat, [](json& config) { config.at("quantization_config").erase("quant_method"); });
  EXPECT_STREQ(detect_format(unnamed)->name, "modelopt");
}

WeightScheme scheme_like(Element element, Extent2d group, const ActivationQuant& activation) {
  return {.element = element, .group = group, .activation = activation};
}

TEST(ModelOptConfig, IsThatOfTheTool) {
  const ActivationQuant e4m3{.mode = Mode::kStatic, .element = Element::kE4M3FN};
  const ActivationQuant per_token{.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = -1};
  const ActivationQuant nvfp4{
      .mode = Mode::kDynamic, .element = Element::kE2M1, .group = 16, .scale = ScaleCodec::kE4M3FN};
  const std::vector<std::pair<const char*, WeightScheme>> cases = {
      {"modelopt-fp8-kv-fp8", scheme_like(Element::kE4M3FN, {0, 0}, e4m3)},
      {"modelopt-fp8-pc-pt", scheme_like(Element::kE4M3FN, {1, 0}, per_token)},
      {"modelopt-nvfp4-kv-fp8", scheme_like(Element::kE2M1, {1, 16}, nvfp4)}};
  for (const auto& [folder, scheme] : cases) {
    const auto checkpoint = open_hugging_face_folder(tool_folder(folder));
    const json& wanted = checkpoint->config().at("quantization_config");
    const json written = kModelOptFormat.config_json({.plain_modules = {"lm_head", "model.embed_tokens"},
                                                      .scheme = scheme,
                                                      .fp8_kv_cache = wanted.contains("kv_cache_scheme")});
    EXPECT_EQ(written, wanted) << folder;
    const json older = kModelOptFormat.settings_of_file(written);
    EXPECT_EQ(older.at("quantization").at("kv_cache_quant_algo") == "FP8",
              wanted.contains("kv_cache_scheme"));
  }
}

TEST(ModelOptConfig, MixedPrecisionIsThatOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(tool_folder("modelopt-mixed"));
  const json& wanted = checkpoint->config().at("quantization_config");
  Recipe recipe{
      .scheme = scheme_like(Element::kE4M3FN, {0, 0}, {.mode = Mode::kStatic, .element = Element::kE4M3FN})};
  const WeightScheme nvfp4 = scheme_like(
      Element::kE2M1, {1, 16},
      {.mode = Mode::kDynamic, .element = Element::kE2M1, .group = 16, .scale = ScaleCodec::kE4M3FN});
  for (const auto& [layer, body] : wanted.at("quantized_layers").items()) {
    recipe.layers.push_back(layer);
    if (layer.find(".mlp.") != std::string::npos) recipe.form_overrides[layer] = nvfp4;
  }
  const json written = kModelOptFormat.config_json(recipe);
  for (const char* key : {"quant_algo", "quantized_layers", "config_groups", "ignore"})
    EXPECT_EQ(written.at(key), wanted.at(key)) << key;
  EXPECT_EQ(kModelOptFormat.settings_of_file(written).at("quantization").at("quantized_layers"),
            wanted.at("quantized_layers"));
}

TEST(ModelOptConfig, OtherSchemesAreNotWritten) {
  EXPECT_EQ(
      error_of([] { kModelOptFormat.config_json({}); }),
      "this format does not write 4-bit integers; FP8, FP8_PER_CHANNEL_PER_TOKEN, NVFP4 and W4A16_NVFP4 "
      "are written");
  const QuantWeight awq = load_from("modelopt-int4-awq", kQ);
  EXPECT_EQ(
      error_of([&] { kModelOptFormat.pack(awq, "x", {}); }),
      "layer 'x': int4 in groups of [1, 128] is none of these algorithms; FP8, FP8_PER_CHANNEL_PER_TOKEN, "
      "NVFP4 and W4A16_NVFP4 are written");
}

TEST(ModelOptRefusal, SettingsThatChangeTheMeaning) {
  const auto with = [](const char* key, json value) {
    return refusal_of("modelopt-nvfp4-kv-fp8", [&](json& settings) { settings[key] = value; });
  };
  EXPECT_EQ(
      with("quant_algo", "NVFP4_SVD").find("memory/config.json: quant_algo 'NVFP4_SVD' is not supported"),
      0u);
  EXPECT_EQ(with("quant_algo", nullptr), "memory/config.json: key 'quant_algo' is missing");
  EXPECT_NE(with("has_zero_point", true).find("key 'has_zero_point' is set"), std::string::npos);
  EXPECT_EQ(with("kv_cache_scheme", "NVFP4_AFFINE"),
            "memory/config.json: kv_cache_scheme \"NVFP4_AFFINE\" is not supported; "
            "{\"dynamic\":false,\"num_bits\":8,\"type\":\"float\"} is");
  EXPECT_EQ(with("kv_cache_quant_algo", "NVFP4"),
            "memory/config.json: kv_cache_quant_algo 'NVFP4' is not supported; 'FP8' is");
  EXPECT_EQ(with("quant_algo", "MIXED_PRECISION"),
            "memory/config.json: quant_algo 'MIXED_PRECISION' needs key 'quantized_layers' with at least one "
            "layer");
  EXPECT_NE(
      with("group_size", 32).find("makes groups of 16, but the quantization settings say group_size 32"),
      std::string::npos);
}

TEST(ModelOptRefusal, AlgorithmsThatTheTensorsContradict) {
  const auto as = [](const char* folder, const char* algorithm) {
    return refusal_of(folder, [&](json& settings) { settings["quant_algo"] = algorithm; });
  };
  EXPECT_EQ(
      as("modelopt-nvfp4-kv-fp8", "FP8"),
      "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight_scale_2' has no place in a "
      "layer quantized by FP8, which 'quant_algo' in memory/config.json asks for");
  EXPECT_EQ(
      as("modelopt-fp8-kv-fp8", "NVFP4"),
      "memory: tensor 'model.layers.0.self_attn.q_proj.weight_scale_2' is missing although its layer is "
      "quantized by NVFP4");
  EXPECT_EQ(
      as("modelopt-mxfp4", "MXFP8"),
      "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight' has dtype u8, expected "
      "f8_e4m3");
  EXPECT_NE(as("modelopt-nvfp4-kv-fp8", "W4A16_NVFP4").find("input_scale' has no place"), std::string::npos);
}

TEST(ModelOptRefusal, SettingsThatDisagreeWithTheFileBesideThem) {
  const auto real = open_hugging_face_folder(tool_folder("modelopt-fp8-pc-pt"));
  FixtureCopy copy(*real);
  copy.add_sidecar("hf_quant_config.json", {{"quantization", {{"quant_algo", "NVFP4"}}}});
  EXPECT_EQ(
      error_of([&] { detect_format(copy); }),
      "memory/config.json: quant_algo is 'FP8_PER_CHANNEL_PER_TOKEN', but 'NVFP4' in hf_quant_config.json");
}

TEST(ModelOptRefusal, LayersThatMixedSettingsDoNotName) {
  EXPECT_EQ(
      refusal_of("modelopt-mixed", [](json& settings) { settings.at("quantized_layers").erase(kDown); }),
      "memory/model.safetensors: tensor 'model.layers.0.mlp.down_proj.weight' has dtype u8, but "
      "'quantized_layers' in memory/config.json does not name its layer");
}

TEST(ModelOptConfig, MixedLayersAreFoundThroughWrappersAndParents) {
  const auto real = open_hugging_face_folder(tool_folder("modelopt-mixed"));
  const std::vector<float> wanted = dequantize(load(*real, kDown));
  for (const char* name :
       {"model.language_model.layers.0.mlp.down_proj", "language_model.model.layers.0.mlp"}) {
    const FixtureCopy copy(*real, [&](json& config) {
      json& layers = config.at("quantization_config").at("quantized_layers");
      layers[name] = layers.at(kDown);
      layers.erase(kDown);
    });
    EXPECT_EQ(dequantize(load(copy, kDown)), wanted) << name;
  }
}

TEST(ModelOptRefusal, ScalesAndPacksThatAreBroken) {
  const auto none = [](json&) {};
  const std::string weight = cat(kDown, ".weight"), scale = cat(kDown, ".weight_scale"),
                    second = cat(kDown, ".weight_scale_2");
  const auto with = [&](const std::string& name, TensorView view) {
    return refusal_of("modelopt-nvfp4-kv-fp8", none, [&](MemoryCheckpoint& c) { c.add(name, view); });
  };
  const auto bytes = [](DType type, std::vector<int64_t> shape, uint8_t value) {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    return TensorView{type, shape, Buffer::copy_of(std::vector<uint8_t>(static_cast<size_t>(count), value))};
  };
  const auto one = [](float value) {
    return TensorView{DType::kF32, {}, Buffer::copy_of(std::vector<float>{value})};
  };
  const std::string file = "memory/model.safetensors: ";
  EXPECT_EQ(with(weight, bytes(DType::kU8, {128, 127}, 1)),
            file + "tensor '" + scale + "' has shape [128, 16], but 16 groups don't divide rows of 254");
  EXPECT_EQ(with(weight, bytes(DType::kU8, {16384}, 1)),
            file + "tensor '" + weight + "' has shape [16384], expected two dimensions");
  EXPECT_EQ(with(scale, bytes(DType::kU8, {128, 16}, 0x38)),
            file + "tensor '" + scale + "' has dtype u8, expected f8_e4m3");
  EXPECT_EQ(with(scale, bytes(DType::kF8E4M3, {127, 16}, 0x38)),
            file + "tensor '" + scale + "' has shape [127, 16], expected [128, 16]");
  EXPECT_EQ(with(scale, bytes(DType::kF8E4M3, {128, 16}, 0x7f)),
            file + "layer '" + kDown + "': entry 0 of 2048 scales is not finite");
  EXPECT_NE(with(scale, bytes(DType::kF8E4M3, {128, 16}, 0)).find("is zero but its codes are not"),
            std::string::npos);
  EXPECT_EQ(with(second, one(0)), file + "tensor '" + second + "' holds 0, expected a positive number");
  EXPECT_EQ(with(second, one(NAN)), file + "tensor '" + second + "' holds nan, expected a positive number");
  EXPECT_EQ(with(second, {DType::kF32, {2}, Buffer::copy_of(std::vector<float>{1, 1})}),
            file + "tensor '" + second + "' has shape [2], expected 1 entry");
  EXPECT_EQ(
      with(cat(kDown, ".svdquant_lora_a"), one(1)).find(file + "tensor '" + kDown + ".svdquant_lora_a'"), 0u);
}

TEST(ModelOptRefusal, PlainWeightsBesideScales) {
  EXPECT_EQ(refusal_of(
                "modelopt-mxfp8", [](json&) {},
                [](MemoryCheckpoint& c) {
                  c.add(cat(kQ, ".weight"), DType::kBF16, {2, 2}, std::vector<uint16_t>(4));
                }),
            "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight_scale' stands beside "
            "'model.layers.0.self_attn.q_proj.weight' of dtype bf16; expected quantized codes there");
}

}  // namespace
}  // namespace quaver
