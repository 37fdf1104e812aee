// Quark's files: values, activations, caches, per-layer settings, and what is refused.
#include "formats/quark.h"

#include "tool_fixture.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

class Quark : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Checkpoint> checkpoint_ = open_hugging_face_folder(tool_folder(GetParam()));
};

TEST_P(Quark, ValuesAreThoseOfTheTool) {
  ASSERT_STREQ(detect_format(*checkpoint_)->name, "quark");
  expect_tool_weights(*checkpoint_, GetParam());
}

TEST_P(Quark, EveryTensorIsUsedOnce) { expect_all_tensors_used(*checkpoint_); }

TEST_P(Quark, NoRuleIsLeftOver) {
  for (const std::string& rule : kQuarkFormat.unmatched_rules(*checkpoint_)) EXPECT_EQ(rule, "lm_head");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Quark,
                         testing::Values("quark-fp8-kv-fp8", "quark-int4-g64-reorder", "quark-int8",
                                         "quark-mixed", "quark-mxfp4", "quark-mxfp4-fp8", "quark-mxfp6-e3m2",
                                         "quark-nvfp4"),
                         [](const auto& fixture) {
                           std::string name = fixture.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

ActivationQuant mx(Element element, PowerOfTwo rule = PowerOfTwo::kRounded) {
  return {.mode = Mode::kDynamic,
          .element = element,
          .group = 32,
          .scale = ScaleCodec::kE8M0,
          .power_of_two = rule};
}

TEST(QuarkActivation, IsWhatTheSettingsAskFor) {
  EXPECT_EQ(load_from("quark-mxfp4", kQ).activation, mx(Element::kE2M1));
  EXPECT_EQ(load_from("quark-mxfp6-e3m2", kQ).activation, mx(Element::kE3M2));
  EXPECT_EQ(load_from("quark-int4-g64-reorder", kQ).activation, ActivationQuant{});
  const auto with_rule = [](const char* rule) {
    const auto real = open_hugging_face_folder(tool_folder("quark-mxfp4"));
    const FixtureCopy copy(*real, [&](json& config) {
      config.at("quantization_config")
          .at("global_quant_config")
          .at("input_tensors")["scale_calculation_mode"] = rule;
    });
    return load(copy, kQ).activation;
  };
  EXPECT_EQ(with_rule("floor"), mx(Element::kE2M1, PowerOfTwo::kFloor));
  EXPECT_EQ(with_rule("ceil"), mx(Element::kE2M1, PowerOfTwo::kCeil));
  EXPECT_THAT(error_of([&] { with_rule("odd"); }),
              testing::HasSubstr("scale_calculation_mode 'odd' is not supported"));
  const ActivationQuant e4m3{.mode = Mode::kStatic, .element = Element::kE4M3FN, .static_scale = 0x1.36p-7f};
  EXPECT_EQ(load_from("quark-fp8-kv-fp8", kQ).activation, e4m3);
  EXPECT_EQ(load_from("quark-mxfp4-fp8", kQ).activation, e4m3);
  EXPECT_EQ(load_from("quark-int8", kQ).activation,
            (ActivationQuant{.mode = Mode::kStatic, .element = Element::kInt8, .static_scale = 0x1.22p-5f}));
  EXPECT_EQ(load_from("quark-mixed", kDown).activation,
            (ActivationQuant{.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = -1}));
  const ActivationQuant nvfp4 = load_from("quark-nvfp4", kDown).activation;
  EXPECT_EQ(nvfp4.scale, ScaleCodec::kE4M3FN);
  EXPECT_EQ(nvfp4.group, 16);
  EXPECT_EQ(nvfp4.super_scale, 0x1.830c3p-10f);
}

TEST(QuarkCache, IsAnnouncedInBothSpellings) {
  const auto newer = open_hugging_face_folder(tool_folder("quark-fp8-kv-fp8"));
  ASSERT_TRUE(kQuarkFormat.kv_cache(*newer).has_value());
  const FixtureCopy older(*newer, [](json& config) {
    json& settings = config.at("quantization_config");
    settings["layer_quant_config"] = settings.at("kv_cache_quant_config");
    settings.erase("kv_cache_quant_config");
  });
  EXPECT_TRUE(kQuarkFormat.kv_cache(older).has_value());
  EXPECT_NO_THROW(load(older, "model.layers.0.self_attn.k_proj"));
  EXPECT_FALSE(kQuarkFormat.kv_cache(*open_hugging_face_folder(tool_folder("quark-int8"))).has_value());
}

// The same codes once in the interleaved order and once in the natural one.
TEST(QuarkInt4, NaturalOrderReads) {
  const auto real = open_hugging_face_folder(tool_folder("quark-int4-g64-reorder"));
  FixtureCopy natural(
      *real, [](json& config) { config.at("quantization_config").at("export").at("pack_method") = "order"; });
  for (const char* part : {"weight", "weight_zero_point"}) {
    const std::string name = cat(kQ, ".", part);
    const TensorView view = real->read(name);
    std::vector<uint32_t> words(view.data.as<uint32_t>().begin(), view.data.as<uint32_t>().end());
    for (uint32_t& word : words) {
      uint32_t sorted = 0;
      constexpr int kColumn[8] = {0, 2, 4, 6, 1, 3, 5, 7};
      for (int slot = 0; slot < 8; ++slot) sorted |= (word >> (slot * 4) & 15u) << (kColumn[slot] * 4);
      word = sorted;
    }
    natural.add(name, {view.dtype, view.shape, Buffer::copy_of(words)});
  }
  EXPECT_EQ(dequantize(load(natural, kQ)), dequantize(load(*real, kQ)));
}

TEST(QuarkInt4, UnsignedCodesAndZeroPointsRead) {
  const auto real = open_hugging_face_folder(tool_folder("quark-int4-g64-reorder"));
  FixtureCopy asymmetric(*real, [](json& config) {
    json& weight = config.at("quantization_config").at("global_quant_config").at("weight");
    weight["dtype"] = "uint4";
    weight["symmetric"] = false;
  });
  for (const char* part : {"weight", "weight_zero_point"}) {  // both 8 higher: the same values
    const std::string name = cat(kQ, ".", part);
    const TensorView view = real->read(name);
    std::vector<uint32_t> words(view.data.as<uint32_t>().begin(), view.data.as<uint32_t>().end());
    for (uint32_t& word : words) word ^= 0x88888888u;
    asymmetric.add(name, {view.dtype, view.shape, Buffer::copy_of(words)});
  }
  EXPECT_EQ(dequantize(load(asymmetric, kQ)), dequantize(load(*real, kQ)));
}

TEST(QuarkMX, OtherSixBitFloatReads) {
  const auto real = open_hugging_face_folder(tool_folder("quark-mxfp6-e3m2"));
  const FixtureCopy other(*real, [](json& config) {
    json& global = config.at("quantization_config").at("global_quant_config");
    for (const char* key : {"weight", "input_tensors"}) global.at(key)["dtype"] = "fp6_e2m3";
  });
  const QuantWeight weight = load(other, kQ);
  EXPECT_EQ(weight.element, Element::kE2M3);
  EXPECT_EQ(weight.activation, mx(Element::kE2M3));
  EXPECT_EQ(dequantize(weight)[0] == dequantize(load(*real, kQ))[0], false);
}

TEST(QuarkRefusal, SettingsThatChangeTheMeaning) {
  const auto weight = [](const char* key, json value) {
    return refusal_of("quark-mxfp4",
                      [&](json& settings) { settings["global_quant_config"]["weight"][key] = value; });
  };
  const std::string begin = "memory/config.json: global_quant_config: weight";
  EXPECT_EQ(weight("dtype", "mx"), begin + ": dtype 'mx' is not supported");
  EXPECT_EQ(
      weight("scale_format", nullptr),
      begin +
          ": dtype 'fp4' with qscheme 'per_group', group_size 32, ch_axis -1, scale_format '', static is "
          "not supported");
  EXPECT_NE(weight("is_dynamic", true).find("', dynamic is not supported"), std::string::npos);
  EXPECT_NE(weight("ch_axis", 0).find("ch_axis 0"), std::string::npos);
  const auto with = [](const char* key, json value) {
    return refusal_of("quark-mxfp4", [&](json& settings) { settings[key] = value; });
  };
  EXPECT_NE(with("softmax_quant_spec", {{"dtype", "fp8_e4m3"}}).find("key 'softmax_quant_spec' is set"),
            std::string::npos);
  EXPECT_EQ(with("algo_config", {{{"name", "rotation"}}}),
            "memory/config.json: algo_config 'rotation' may rotate activations at run time, which is not "
            "supported");
  EXPECT_EQ(with("export", {{"weight_format", "fake_quantized"}}),
            "memory/config.json: weight_format 'fake_quantized' is not supported; 'real_quantized' is");
  EXPECT_EQ(with("export", {{"pack_method", "tiles"}}),
            "memory/config.json: pack_method 'tiles' is not supported; 'reorder' and 'order' are");
  EXPECT_EQ(
      refusal_of("quark-fp8-kv-fp8",
                 [](json& settings) {
                   settings["kv_cache_quant_config"]["*k_proj"]["output_tensors"]["dtype"] = "int8";
                 }),
      "memory/config.json: kv_cache_quant_config '*k_proj': a cache of dtype 'int8' and qscheme 'per_tensor' "
      "is not supported; static 'fp8_e4m3' with 'per_tensor' is");
  EXPECT_NE(refusal_of("quark-int8",
                       [](json& settings) {
                         json& global = settings["global_quant_config"];
                         global["output_tensors"] = global["input_tensors"];
                       })
                .find("quantizes the output of layer 'model.layers.0.self_attn.q_proj'"),
            std::string::npos);
}

TEST(QuarkRefusal, SettingsThatTheTensorsContradict) {
  EXPECT_EQ(refusal_of("quark-mxfp4", [](json& settings) { settings["exclude"].push_back("*q_proj"); }),
            "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight' has dtype u8, but "
            "memory/config.json leaves its layer plain");
  EXPECT_EQ(refusal_of("quark-mxfp4-fp8",
                       [](json& settings) { settings["global_quant_config"]["input_tensors"] = nullptr; }),
            "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.input_scale' has no place in "
            "a layer "
            "as global_quant_config in memory/config.json describes it");
  EXPECT_EQ(
      refusal_of(
          "quark-nvfp4", [](json&) {}, [](MemoryCheckpoint& c) { c.remove(cat(kQ, ".input_scale_2")); }),
      "memory: tensor 'model.layers.0.self_attn.q_proj.input_scale_2' is missing although "
      "global_quant_config "
      "in memory/config.json asks for it");
  EXPECT_EQ(
      refusal_of("quark-mixed", [](json& settings) { settings["layer_quant_config"] = json::object(); }),
      "memory/model.safetensors: tensor 'model.layers.0.mlp.down_proj.weight' has dtype f8_e4m3, "
      "expected u8");
}

TEST(QuarkRefusal, TensorsThatAreBroken) {
  const auto none = [](json&) {};
  const std::string file = "memory/model.safetensors: ";
  const std::string scale = cat(kQ, ".weight_scale"), zero = cat(kQ, ".weight_zero_point");
  EXPECT_EQ(refusal_of("quark-mxfp6-e3m2", none,
                       [](MemoryCheckpoint& c) {
                         c.add(cat(kQ, ".weight"), DType::kU8, {128, 95}, std::vector<uint8_t>(128 * 95));
                       }),
            file + "tensor '" + kQ +
                ".weight' has shape [128, 95], whose rows hold no whole number of 6-bit codes");
  EXPECT_EQ(refusal_of("quark-mxfp4", none,
                       [&](MemoryCheckpoint& c) {
                         c.add(scale, DType::kU8, {128, 4}, std::vector<uint8_t>(512, 255));
                       }),
            file + "layer '" + kQ + "': entry 0 of 512 scales is not finite");
  EXPECT_EQ(refusal_of("quark-mxfp4", none,
                       [&](MemoryCheckpoint& c) {
                         c.add(scale, DType::kU8, {128, 3}, std::vector<uint8_t>(384, 127));
                       }),
            file + "tensor '" + scale + "' has shape [128, 3], expected [128, 4]");
  EXPECT_EQ(refusal_of("quark-int8", none,
                       [&](MemoryCheckpoint& c) { c.add(zero, DType::kI8, {}, std::vector<int8_t>{3}); }),
            file + "tensor '" + zero + "' holds 3, but the quantization settings say symmetric");
  EXPECT_EQ(refusal_of("quark-int4-g64-reorder", none,
                       [&](MemoryCheckpoint& c) {
                         c.add(zero, DType::kI32, {2, 15}, std::vector<int32_t>(30));
                       }),
            file + "tensor '" + zero + "' has shape [2, 15], expected [2, 16]");
  EXPECT_EQ(refusal_of("quark-int4-g64-reorder", none,
                       [&](MemoryCheckpoint& c) {
                         c.add(cat(kQ, ".weight"), DType::kI8, {128, 64}, std::vector<int8_t>(128 * 64));
                       }),
            file + "tensor '" + kQ + ".weight' has dtype i8, expected i32 or u32");
  EXPECT_EQ(refusal_of("quark-fp8-kv-fp8", none,
                       [&](MemoryCheckpoint& c) { c.add(scale, DType::kF32, {}, std::vector<float>{NAN}); }),
            file + "layer '" + kQ + "': entry 0 of 1 scales is not finite");
}

}  // namespace
}  // namespace quaver
