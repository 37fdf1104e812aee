// torchao's files: values, activations, per-layer configurations, and what is refused.
#include "formats/torchao.h"

#include "numerics/half.h"
#include "tool_fixture.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

constexpr const char* kIntx = "torchao-intx-int4-g32";

class TorchAo : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Checkpoint> checkpoint_ = open_hugging_face_folder(tool_folder(GetParam()));
};

TEST_P(TorchAo, ValuesAreThoseOfTheTool) {
  ASSERT_STREQ(detect_format(*checkpoint_)->name, "torchao");
  for (const ToolWeight& wanted : tool_weights(GetParam())) {
    const QuantWeight weight = load(*checkpoint_, wanted.layer);
    std::vector<float> values = dequantize(weight);
    values.resize(wanted.rows * static_cast<size_t>(weight.shape.cols));
    // The tool hands its products out as bf16, as which the pickled fixtures keep all and the others int4.
    if (weight.element == Element::kInt4 || std::string_view(GetParam()).starts_with("torchao-pickle"))
      for (float& value : values) value = bf16_to_float(float_to_bf16(value));
    EXPECT_EQ(hash_of(values), wanted.hash) << wanted.layer;
    for (size_t i = 0; i < wanted.first_rows.size(); ++i) ASSERT_EQ(values[i], wanted.first_rows[i]) << i;
  }
}

TEST_P(TorchAo, EveryTensorIsUsedOnce) { expect_all_tensors_used(*checkpoint_); }

TEST_P(TorchAo, NoRuleIsLeftOver) { EXPECT_TRUE(kTorchAoFormat.unmatched_rules(*checkpoint_).empty()); }

INSTANTIATE_TEST_SUITE_P(Fixtures, TorchAo,
                         testing::Values("torchao-float8wo", "torchao-fqn-to-config", "torchao-int8da-int8w",
                                         "torchao-int8wo", "torchao-intx-int4-g32", "torchao-pickle-float8",
                                         "torchao-pickle-int4", "torchao-pickle-int8da",
                                         "torchao-pickle-intx"),
                         [](const auto& fixture) {
                           std::string name = fixture.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(TorchAoActivation, IsWhatTheHeaderAsksFor) {
  EXPECT_EQ(load_from("torchao-int8da-int8w", kQ).activation,
            (ActivationQuant{.mode = Mode::kDynamic, .element = Element::kInt8, .group = -1}));
  for (const char* folder : {"torchao-int8wo", "torchao-float8wo", "torchao-intx-int4-g32"})
    EXPECT_EQ(load_from(folder, kQ).activation, ActivationQuant{}) << folder;
}

TEST(TorchAoConfig, TablesMixIntegersAndPlainLayers) {
  const auto checkpoint = open_hugging_face_folder(tool_folder("torchao-fqn-to-config"));
  EXPECT_EQ(load(*checkpoint, kQ).element, Element::kInt8);
  EXPECT_EQ(load(*checkpoint, kDown).element, Element::kInt4);
  EXPECT_TRUE(kTorchAoFormat.plan(*checkpoint, "model.layers.0.self_attn.k_proj").tensors.empty());
}

// The header's text of a layer in a copy of a fixture.
json header_of(const char* folder, const char* layer) {
  return json::parse(open_hugging_face_folder(tool_folder(folder))->metadata(cat(layer, ".weight")));
}

std::string header_refusal(
    const char* folder, const std::function<void(json&)>& header,
    const std::function<void(MemoryCheckpoint&)>& change = [](MemoryCheckpoint&) {},
    const FixtureCopy::Edit& edit = [](json&) {}) {
  json text = header_of(folder, kQ);
  header(text);
  return refusal_of(folder, {kQ}, edit, [&](MemoryCheckpoint& copy) {
    copy.add_metadata(cat(kQ, ".weight"), text.dump());
    change(copy);
  });
}

TEST(TorchAoActivation, OtherInputsAreUnderstoodOrRefused) {
  const auto with = [](json kwargs) {
    const auto real = open_hugging_face_folder(tool_folder("torchao-float8wo"));
    FixtureCopy copy(*real);
    json header = header_of("torchao-float8wo", kQ);
    header["_data"]["act_quant_kwargs"] = {{"_type", "QuantizeTensorToFloat8Kwargs"}, {"_data", kwargs}};
    copy.add_metadata(cat(kQ, ".weight"), header.dump());
    return load(copy, kQ).activation;
  };
  EXPECT_EQ(with({{"granularity", {{"_type", "PerRow"}}}}),
            (ActivationQuant{.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = -1}));
  EXPECT_EQ(with({{"granularity", {{"_type", "PerTensor"}}}}).group, 0);
  EXPECT_NE(error_of([&] {
              with({{"granularity", {{"_type", "PerBlock"}}}});
            }).find("act_quant_kwargs with granularity 'PerBlock' is not supported"),
            std::string::npos);
  const auto intx = [](const char* name) {
    return header_refusal(kIntx, [&](json& header) { header["_data"]["activation_quantization"] = name; });
  };
  EXPECT_EQ(intx("int8_asym_per_token"), "");
  EXPECT_NE(intx("int4").find("activation_quantization 'int4' is not supported"), std::string::npos);
}

// Codes, scales and real zeros by the definition: w = scale * q + zero, q signed, scales [groups, out].
TEST(TorchAoInt4, RealZerosRead) {
  const json config = {
      {"quantization_config",
       {{"quant_method", "torchao"}, {"quant_type", {{"default", {{"_type", "Int4WeightOnlyConfig"}}}}}}}};
  MemoryCheckpoint checkpoint(config);
  const json header = {{"_type", "Int4Tensor"},
                       {"_data", {{"block_size", {1, 4}}}},
                       {"_tensor_data_names", {"qdata", "scale", "zero_point"}}};
  checkpoint.add_metadata("x.weight", header.dump());
  checkpoint.add("x._weight_qdata", DType::kU8, {2, 4},
                 std::vector<uint8_t>{0x10, 0x7f, 0x98, 0x21, 0xe3, 0x44, 0x05, 0xcb});
  checkpoint.add("x._weight_scale", DType::kF32, {2, 2}, std::vector<float>{0.5f, 2, 1, 4});
  checkpoint.add("x._weight_zero_point", DType::kF32, {2, 2}, std::vector<float>{-3, 1, 0.25f, 8});
  const std::vector<float> values = dequantize(load(checkpoint, "x"));
  const std::vector<float> wanted = {-3,           -2.5f,         -3.5f, 0.5f, -7.75f, -6.75f, 1.25f, 2.25f,
                                     2 * 3.0f + 1, 2 * -2.0f + 1, 9,     9,    28,     8,      -12,   -8};
  EXPECT_EQ(values, wanted);
}

TEST(TorchAoRefusal, HeadersThatCantBeRun) {
  const auto none = [](json&) {};
  const std::string begin = "memory: the description of 'model.layers.0.self_attn.q_proj.weight'";
  EXPECT_EQ(
      header_refusal("torchao-int8wo", [](json& h) { h["_type"] = "Int4TilePackedTo4dTensor"; }),
      begin +
          ": class 'Int4TilePackedTo4dTensor' is not supported; supported are Float8Tensor, Int8Tensor, "
          "IntxUnpackedToInt8Tensor, Int4Tensor");
  EXPECT_EQ(header_refusal("torchao-int8wo", [](json& h) { h["_tensor_data_names"] = {"qdata"}; }),
            begin + ": a Int8Tensor has no 'scale'");
  EXPECT_EQ(
      header_refusal("torchao-int8wo", [](json& h) { h["_tensor_data_names"].push_back("act_quant_scale"); }),
      begin + ": a Int8Tensor with 'act_quant_scale' is not supported");
  EXPECT_EQ(header_refusal("torchao-int8wo",
                           [](json& h) {
                             h["_data"]["block_size"] = {0, 128};
                           }),
            begin + ": block_size [0, 128]; expected two extents");
  EXPECT_EQ(header_refusal("torchao-int8wo", [](json& h) { h = 3; }), begin + " must be an object");
  EXPECT_EQ(header_refusal("torchao-int8wo", [](json& h) { h["_type"] = "Tensor"; }),
            "memory: layer 'model.layers.0.self_attn.q_proj' has parts of a quantized weight, but nothing "
            "describes "
            "'model.layers.0.self_attn.q_proj.weight'");
  EXPECT_NE(header_refusal(kIntx, [](json& h) { h["_data"]["target_dtype"]["_data"] = "uint4"; })
                .find("target_dtype 'uint4' is not supported"),
            std::string::npos);
  EXPECT_EQ(header_refusal("torchao-int8wo", none,
                           [](MemoryCheckpoint& c) { c.remove(cat(kQ, "._weight_scale")); }),
            "memory: tensor 'model.layers.0.self_attn.q_proj._weight_scale' is missing although its "
            "weight's description names it");
}

TEST(TorchAoRefusal, SettingsThatCantBeRun) {
  const auto with = [](const FixtureCopy::Edit& edit) {
    return header_refusal(
        "torchao-int8wo", [](json&) {}, [](MemoryCheckpoint&) {}, edit);
  };
  EXPECT_EQ(with([](json& s) { s["quant_type"] = "int8_weight_only"; }),
            "memory/config.json: key 'quant_type' must be an object with the one key 'default'; older "
            "spellings are "
            "not supported");
  EXPECT_EQ(with([](json& s) { s["quant_type"]["default"]["_type"] = "GemliteUIntXWeightOnlyConfig"; }),
            "memory/config.json: class 'GemliteUIntXWeightOnlyConfig' is not supported");
  EXPECT_EQ(
      with([](json& s) { s["quant_type"]["default"]["_type"] = "Float8WeightOnlyConfig"; }),
      "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj._weight_zero_point' is part of a "
      "Int8Tensor, but 'default' in memory/config.json asks for Float8WeightOnlyConfig");
  EXPECT_EQ(
      header_refusal(
          "torchao-fqn-to-config", [](json&) {}, [](MemoryCheckpoint&) {},
          [](json& s) { s["quant_type"]["default"]["_data"]["fqn_to_config"][kQ] = nullptr; }),
      cat("memory/model.safetensors: tensor '", kQ, "._weight_zero_point' is part of a Int8Tensor, but '", kQ,
          "' in memory/config.json leaves its layer plain"));
}

TEST(TorchAoRefusal, TensorsThatAreBroken) {
  const auto none = [](json&) {};
  const std::string begin = cat("memory/model.safetensors: tensor '", kQ, "._weight_");
  EXPECT_EQ(header_refusal(
                kIntx, none,
                [](MemoryCheckpoint& c) {
                  c.add(cat(kQ, "._weight_qdata"), DType::kI8, {128, 128}, std::vector<int8_t>(16384, 8));
                }),
            begin + "qdata' holds 8, which 4 bits can't be");
  EXPECT_EQ(
      header_refusal(
          kIntx, none,
          [](MemoryCheckpoint& c) {
            c.add(cat(kQ, "._weight_scale"), DType::kBF16, {4, 128}, std::vector<uint16_t>(512, 0x3f80));
          }),
      begin + "scale' has shape [4, 128], expected [128, 4]");
  EXPECT_EQ(
      header_refusal(
          kIntx, none,
          [](MemoryCheckpoint& c) {
            c.add(cat(kQ, "._weight_scale"), DType::kBF16, {128, 4}, std::vector<uint16_t>(512, 0x7fc0));
          }),
      cat("memory/model.safetensors: layer '", kQ, "': entry 0 of 512 scales is not finite"));
  EXPECT_EQ(header_refusal("torchao-int8wo", none,
                           [](MemoryCheckpoint& c) {
                             c.add(cat(kQ, "._weight_zero_point"), DType::kI8, {127},
                                   std::vector<int8_t>(127));
                           }),
            begin + "zero_point' has shape [127], expected [128, 1]");
  EXPECT_EQ(
      header_refusal("torchao-float8wo", none,
                     [](MemoryCheckpoint& c) {
                       c.add(cat(kQ, "._weight_qdata"), DType::kI8, {128, 128}, std::vector<int8_t>(16384));
                     }),
      begin + "qdata' has dtype i8, expected f8_e4m3");
}

}  // namespace
}  // namespace quaver
