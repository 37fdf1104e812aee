// Every row of the table against files that the vendors' own tools wrote: values, bytes and configs.
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include "base/mapped_file.h"
#include "format_checks.h"

namespace quaver {
namespace {

struct FixtureCase {
  const char* folder;
  const char* format;
  bool writable = true;
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

std::vector<std::string> packed_layers(const Checkpoint& checkpoint) {
  std::vector<std::string> layers;
  for (const TensorInfo& tensor : checkpoint.tensors())
    if (tensor.name.ends_with(".qweight")) layers.push_back(tensor.name.substr(0, tensor.name.size() - 8));
  return layers;
}

Recipe recipe_of(const Checkpoint& checkpoint) {
  const json& settings = checkpoint.config().at("quantization_config");
  return {.bits = settings.at("bits"),
          .group_size = settings.at("group_size"),
          .sym = settings.value("sym", true)};
}

class Conformance : public testing::TestWithParam<FixtureCase> {};

TEST_P(Conformance, ValuesAreThoseOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(folder_of(GetParam()));
  ASSERT_STREQ(detect_format(*checkpoint)->name, GetParam().format);
  const json expected = read_json_file(folder_of(GetParam()) + "/weights.json");
  ASSERT_GE(expected.size(), 2u);
  for (const auto& [name, facts] : expected.items()) {
    const QuantWeight weight = load(*checkpoint, name.substr(0, name.size() - std::string(".weight").size()));
    const std::vector<float> values = dequantize(weight);
    const size_t count = facts.at("rows").get<size_t>() * static_cast<size_t>(weight.shape.cols);
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
    const std::vector<float> values = dequantize(load(*checkpoint, name.substr(0, name.size() - 7)));
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
  const std::vector<std::string> layers = packed_layers(*checkpoint);
  ASSERT_GE(layers.size(), 7u);
  if (!GetParam().writable) return;
  for (const std::string& layer : layers) {
    const LayerPlan plan = format->plan(*checkpoint, layer);
    const auto packed = format->pack(format->unpack(plan, *checkpoint), layer, recipe_of(*checkpoint));
    EXPECT_EQ(packed.size(), plan.tensors.size()) << layer;
    expect_same_tensors(packed, *checkpoint);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Conformance, testing::ValuesIn(kFixtures), [](const auto& fixture) {
  std::string name = fixture.param.folder;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(FormatTable, EveryRowHasAFixture) {
  std::set<std::string> covered;
  for (const FixtureCase& fixture : kFixtures) covered.insert(fixture.format);
  for (const Format& format : all_formats()) EXPECT_TRUE(covered.contains(format.name)) << format.name;
}

TEST(FormatTable, NamesAreFoundAndUnique) {
  std::set<std::string> names;
  for (const Format& format : all_formats()) {
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
  }
  EXPECT_EQ(find_format("auto"), nullptr);
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
