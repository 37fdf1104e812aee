// Every row of the table against files that the vendors' own tools wrote: values, bytes and configs.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/mapped_file.h"
#include "format_checks.h"

namespace quaver {
namespace {

struct FixtureCase {
  const char* folder;
  const char* format;
  bool writable = true;
  bool global_first = false;  // its tool multiplies the code by the second level first, then by the scale
};

constexpr FixtureCase kFixtures[] = {
    {"autoround-w2g64-sym", "auto_round"},
    {"autoround-w2g64-asym", "auto_round"},
    {"autoround-w3g128-sym", "auto_round"},
    {"autoround-w4g128-sym", "auto_round"},
    {"autoround-w4g128-asym-awq", "auto_round"},
    {"autoround-w4g32-sym", "auto_round"},
    {"autoround-w5g128-asym", "auto_round"},
    {"autoround-mixed-bits", "auto_round"},
    {"autoround-moe-w4g32-sym", "auto_round"},
    {"autoround-gptq-w4g128-sym", "auto_gptq"},
    {"gptqmodel-dynamic", "auto_gptq"},
    {"gptqmodel-w4g32-actorder", "auto_gptq"},
    {"gptqmodel-w4g64-asym-v2", "auto_gptq", false},  // we write the first convention only
    {"autoround-awq-w4g128-asym", "auto_awq"},
    {"gptqmodel-awq-gemm-w4g128", "auto_awq"},
    {"autoround-fp8-static", "auto_round", false},
    {"autoround-fpw8a16", "auto_round", false},
    {"autoround-block-fp8-native", "auto_round", false},
    {"autoround-mxfp4", "auto_round", false},
    {"autoround-mxfp8", "auto_round", false},
    {"autoround-nvfp4", "auto_round", false, true},
    {"autoround-nvfp4-e5m3", "auto_round", false},
    {"autoround-mxint4", "auto_round", false},
    {"autoround-ct-fp8-static", "compressed_tensors"},
    {"autoround-ct-int8-w8a8", "compressed_tensors"},
    {"autoround-ct-mxfp8", "compressed_tensors"},
    {"ct-fp8-block", "compressed_tensors"},
    {"ct-fp8-dynamic", "compressed_tensors"},
    {"ct-fp8-static-kv-fp8", "compressed_tensors"},
    {"ct-mixed-precision", "compressed_tensors"},
    {"ct-moe-w4a16-g32", "compressed_tensors"},
    {"ct-mxfp4", "compressed_tensors"},
    {"ct-nvfp4", "compressed_tensors"},
    {"ct-w3a16-g64", "compressed_tensors"},
    {"ct-w4a16-g128-asym", "compressed_tensors"},
    {"ct-w4a16-g128-sym", "compressed_tensors"},
    {"ct-w8a8-int8-dynamic", "compressed_tensors"},
    {"bitsandbytes-nf4-double", "bitsandbytes", false},
    {"torchao-float8wo", "torchao", false},
    {"torchao-int8da-int8w", "torchao", false},
    {"torchao-int8wo", "torchao", false},
    {"modelopt-fp8-kv-fp8", "modelopt", false},
    {"modelopt-fp8-pb-wo", "modelopt", false},
    {"modelopt-fp8-pc-pt", "modelopt", false},
    {"modelopt-mixed", "modelopt", false},
    {"modelopt-mxfp4", "modelopt", false},
    {"modelopt-mxfp8", "modelopt", false},
    {"modelopt-nvfp4-kv-fp8", "modelopt", false},
    {"quark-fp8-kv-fp8", "quark", false},
    {"quark-int4-g64-reorder", "quark", false},
    {"quark-int8", "quark", false},
    {"quark-mixed", "quark", false},
    {"quark-mxfp4", "quark", false},
    {"quark-mxfp4-fp8", "quark", false},
    {"quark-mxfp6-e3m2", "quark", false},
    {"quark-nvfp4", "quark", false},
    {"transformers-mxfp4", "mxfp4", false},
    {"transformers-fp8-block", "fp8", false},
    {"autoround-fp8-block", "fp8", false},
};

std::string folder_of(const FixtureCase& fixture) {
  return cat(QUAVER_TEST_DATA, "/fixtures/checkpoints/", fixture.folder);
}

// Of the bytes, with -0 counted as 0.
uint64_t fnv1a(std::span<const float> values) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
    for (int byte = 0; byte < 4; ++byte) hash = (hash ^ (bits >> (byte * 8) & 0xff)) * 0x100000001B3u;
  }
  return hash;
}

// In the tool's order of products: tools disagree by a rounding or two where there are two levels of scales.
std::vector<float> values_of(QuantWeight weight, const FixtureCase& fixture) {
  const std::vector<float> values = dequantize(weight);
  if (!fixture.global_first) return values;
  const float global = decode_scales(*weight.scale.super).at(0);
  weight.scale.super.reset();
  const std::vector<float> scales = decode_scales(weight.scale);
  weight.scale = {.data = Buffer::copy_of(std::vector<float>(scales.size(), global))};
  std::vector<float> reordered = dequantize(weight);
  for (size_t i = 0; i < values.size(); ++i) {
    reordered[i] *= scales[i / static_cast<size_t>(weight.group.cols)];
    EXPECT_LE(std::abs(values[i] - reordered[i]), std::abs(reordered[i]) * 0x5p-24f);  // five roundings
  }
  return reordered;
}

Recipe recipe_of(const Checkpoint& checkpoint, const LayerPlan& plan) {
  if (plan.scheme.contains("element")) return {.scheme = scheme_from_json(plan.scheme)};
  const json& settings = checkpoint.config().at("quantization_config");
  return {.bits = settings.at("bits"),
          .group_size = settings.at("group_size"),
          .sym = settings.value("sym", true)};
}

// Values that need an explanation (input multipliers that the tool keeps apart, a tool that rounds once more)
// are compared in the vendor's own test file.
constexpr const char* kComparedInOwnTest[] = {
    "bitsandbytes-int8",     "modelopt-int4-awq",     "modelopt-int8-smoothquant", "modelopt-w4a8-awq",
    "torchao-fqn-to-config", "torchao-intx-int4-g32", "torchao-pickle-int4",       "torchao-pickle-intx",
    "torchao-pickle-float8", "torchao-pickle-int8da"};

class Conformance : public testing::TestWithParam<FixtureCase> {};

TEST_P(Conformance, ValuesAreThoseOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(folder_of(GetParam()));
  ASSERT_STREQ(detect_format(*checkpoint)->name, GetParam().format);
  const json expected = read_json_file(folder_of(GetParam()) + "/weights.json");
  ASSERT_GE(expected.size(), 2u);
  for (const auto& [name, facts] : expected.items()) {
    QuantWeight weight = load(*checkpoint, name.substr(0, name.size() - std::string(".weight").size()));
    const size_t count = facts.at("rows").get<size_t>() * static_cast<size_t>(weight.shape.cols);
    const std::vector<float> values = values_of(std::move(weight), GetParam());
    const uint64_t hash = fnv1a(std::span(values).first(count));
    EXPECT_EQ(hash, std::stoull(facts.at("fnv1a").get<std::string>(), nullptr, 16)) << name;
  }
}

TEST_P(Conformance, FirstRowsAreThoseOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(folder_of(GetParam()));
  const json expected = read_json_file(folder_of(GetParam()) + "/weights.json");
  const std::string text = read_text_file(folder_of(GetParam()) + "/expected.safetensors", 1 << 20);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), 8);
  const json header = parse_json(std::string_view(text).substr(8, header_bytes), "expected.safetensors");
  for (const auto& [name, facts] : expected.items()) {
    const std::vector<float> values =
        values_of(load(*checkpoint, name.substr(0, name.size() - 7)), GetParam());
    const auto offsets = header.at(name).at("data_offsets").get<std::array<size_t, 2>>();
    for (size_t i = 0; i < (offsets[1] - offsets[0]) / 4; ++i) {
      float wanted = 0;
      std::memcpy(&wanted, text.data() + 8 + header_bytes + offsets[0] + i * 4, 4);
      ASSERT_EQ(values[i], wanted) << name << " element " << i;
    }
  }
}

TEST_P(Conformance, PackingWhatWasUnpackedGivesTheSameBytes) {
  const auto checkpoint = open_hugging_face_folder(folder_of(GetParam()));
  const Format* format = detect_format(*checkpoint);
  const std::vector<std::string> layers = quantized_layers(*checkpoint, *format);
  ASSERT_GE(layers.size(), 7u);
  if (!GetParam().writable) return;
  for (const std::string& layer : layers) {
    const LayerPlan plan = format->plan(*checkpoint, layer);
    const auto packed = format->pack(format->unpack(plan, *checkpoint), layer, recipe_of(*checkpoint, plan));
    EXPECT_EQ(packed.size(), plan.tensors.size()) << layer;
    expect_same_tensors(packed, *checkpoint);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Conformance, testing::ValuesIn(kFixtures), [](const auto& fixture) {
  std::string name = fixture.param.folder;
  std::ranges::replace(name, '-', '_');
  return name;
});

// Known by a file's own types: no folder and no settings say it (gguf_test.cc).
bool is_of_files(const Format& format) { return format.has_plain_values; }

TEST(FormatTable, EveryRowHasAFixture) {
  std::set<std::string> covered;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of({"", ""})))
    if (const Format* format = detect_format(*open_hugging_face_folder(entry.path())))
      covered.insert(format->name);
  for (const Format& format : all_formats())
    EXPECT_TRUE(covered.contains(format.name) || is_of_files(format)) << format.name;
}

TEST(FormatTable, EveryFixtureHasARow) {
  std::set<std::string> covered;
  for (const FixtureCase& fixture : kFixtures) covered.insert(fixture.folder);
  for (const char* folder : kComparedInOwnTest) covered.insert(folder);
  const std::filesystem::path root = cat(QUAVER_TEST_DATA, "/fixtures/checkpoints");
  for (const auto& entry : std::filesystem::directory_iterator(root))
    EXPECT_TRUE(covered.contains(entry.path().filename().string())) << entry.path();
}

TEST(FormatTable, NamesAreFoundAndUnique) {
  std::set<std::string> names;
  for (const Format& format : all_formats()) {
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
  }
  EXPECT_EQ(find_format("auto"), nullptr);
}

// A word that settings may use leads to the format that claims them, and users may write it.
TEST(FormatTable, EveryMethodNamesOneFormat) {
  for (const Format& format : all_formats()) {
    EXPECT_EQ(format_called(format.name), &format);
    EXPECT_FALSE(std::empty(format.methods)) << format.name;
    if (is_of_files(format)) continue;
    for (const std::string_view method : format.methods) {
      EXPECT_EQ(format_called(method), &format) << method;
      EXPECT_TRUE(format.detect(MemoryCheckpoint(json{{"quantization_config", {{"quant_method", method}}}})))
          << method;
    }
  }
  EXPECT_EQ(format_called("GPTQ_Marlin"), find_format("auto_gptq"));
  EXPECT_EQ(format_called("llm_compressor"), find_format("compressed_tensors"));
  for (const char* other : {"int4", "", "gpt"}) EXPECT_EQ(format_called(other), nullptr) << other;
}

TEST(FormatTable, UnknownMethodIsNamed) {
  MemoryCheckpoint checkpoint(json{{"quantization_config", {{"quant_method", "squeeze9"}}}});
  const std::string message = error_of([&] { detect_format(checkpoint); });
  EXPECT_EQ(message.find("memory: quantization method 'squeeze9' is not supported; supported are auto_round"),
            0u)
      << message;
}

TEST(FormatTable, PlainCheckpointHasNoFormat) {
  EXPECT_EQ(detect_format(MemoryCheckpoint(json::object())), nullptr);
}

TEST(FormatTable, PackedTensorsWithoutSettingsAreAnError) {
  MemoryCheckpoint checkpoint(json::object());
  add_along_in(checkpoint, "layer", PlainLayer::random(4, 64, 128, 128, true), 1);
  EXPECT_EQ(error_of([&] { detect_format(checkpoint); }),
            "memory/model.safetensors: tensor 'layer.qweight' is packed, but the checkpoint has no "
            "quantization settings");
}

// The whole object, and the same object again in a file of its own.
TEST(FormatTable, ConfigsAreThoseOfTheTool) {
  const json untuned = {{"enable_quanted_input", false}, {"amp", true}, {"nsamples", 128}};
  const std::vector<std::pair<std::string, Recipe>> cases = {
      {"autoround-w2g64-sym",
       {.bits = 2, .group_size = 64, .block_names = {"model.layers.0"}, .tuning = untuned}},
      {"autoround-w2g64-asym",
       {.bits = 2, .group_size = 64, .sym = false, .block_names = {"model.layers.0"}, .tuning = untuned}},
      {"autoround-w4g128-asym-awq", {.sym = false, .block_names = {"model.layers.0"}, .tuning = untuned}},
      {"autoround-w4g128-sym",
       {.block_names = {"model.layers.0"},
        .tuning = {{"iters", 3}, {"lr", 1.0 / 3}, {"minmax_lr", 1.0 / 3}}}},
      {"autoround-gptq-w4g128-sym", {.block_names = {"model.layers.0"}, .tuning = untuned}},
      {"autoround-awq-w4g128-asym",
       {.sym = false, .block_names = {"model.layers.0"}, .plain_modules = {"lm_head"}, .tuning = untuned}},
  };
  for (const auto& [folder, recipe] : cases) {
    const auto checkpoint = open_hugging_face_folder(cat(QUAVER_TEST_DATA, "/fixtures/checkpoints/", folder));
    const json written = detect_format(*checkpoint)->config_json(recipe);
    EXPECT_EQ(written, checkpoint->config().at("quantization_config")) << folder;
    EXPECT_EQ(written, checkpoint->sidecar("quantization_config.json")) << folder;
  }
}

TEST(FormatTable, MixedBitsConfigIsThatOfTheTool) {
  const auto checkpoint =
      open_hugging_face_folder(cat(QUAVER_TEST_DATA, "/fixtures/checkpoints/autoround-mixed-bits"));
  const json& settings = checkpoint->config().at("quantization_config");
  Recipe recipe{.block_names = {"model.layers"}, .tuning = {{"enable_quanted_input", false}}};
  for (const auto& [layer, body] : settings.at("extra_config").items())
    recipe.layer_overrides.emplace_back(layer, body);
  EXPECT_EQ(detect_format(*checkpoint)->config_json(recipe), settings);
}

}  // namespace
}  // namespace quaver
