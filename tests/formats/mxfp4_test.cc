// Stacked experts in 4-bit floats: which rows are whose, names, settings, and what is refused.
#include "formats/mxfp4.h"

#include "tool_fixture.h"

namespace quaver {
namespace {

constexpr const char* kFolder = "transformers-mxfp4";
constexpr const char* kGate = "model.layers.0.mlp.experts.1.gate_proj";
constexpr const char* kStack = "model.layers.0.mlp.experts.gate_up_proj";

json mxfp4_config(std::vector<std::string> plain = {}) {
  return {{"quantization_config", {{"quant_method", "mxfp4"}, {"modules_to_not_convert", std::move(plain)}}}};
}

// 2 experts of 4 rows and 2 groups: byte b of row r of expert e is 64 e + 16 r + b / 2, scale 120 + 8 e + 2 r
// + g.
struct SmallStack : MemoryCheckpoint {
  explicit SmallStack(json config = mxfp4_config()) : MemoryCheckpoint(std::move(config)) {
    std::vector<uint8_t> blocks, scales;
    for (int e = 0; e < 2; ++e)
      for (int r = 0; r < 4; ++r) {
        for (int b = 0; b < 32; ++b) blocks.push_back(static_cast<uint8_t>(64 * e + 16 * r + b / 2));
        for (int g = 0; g < 2; ++g) scales.push_back(static_cast<uint8_t>(120 + 8 * e + 2 * r + g));
      }
    for (const char* name : {"m.gate_up_proj", "m.down_proj"}) {
      add(cat(name, "_blocks"), DType::kU8, {2, 4, 2, 16}, blocks);
      add(cat(name, "_scales"), DType::kU8, {2, 4, 2}, scales);
    }
  }
};

TEST(Mxfp4, RowsOfGateAndUpAlternate) {
  const SmallStack checkpoint;
  struct Wanted {
    const char* layer;
    std::vector<int> rows;
  };
  for (const auto& [layer, rows] : {Wanted{"m.1.gate_proj", {0, 2}}, Wanted{"m.1.up_proj", {1, 3}},
                                    Wanted{"m.1.down_proj", {0, 1, 2, 3}}}) {
    const QuantWeight weight = load(checkpoint, layer);
    ASSERT_EQ(weight.shape, (Extent2d{static_cast<int64_t>(rows.size()), 64})) << layer;
    EXPECT_EQ(weight.group, (Extent2d{1, 32}));
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(weight.codes.as<uint8_t>()[i * 32 + 31], 64 + 16 * rows[i] + 15) << layer;
      EXPECT_EQ(weight.scale.data.as<uint8_t>()[i * 2 + 1], 120 + 8 + 2 * rows[i] + 1) << layer;
    }
  }
  EXPECT_EQ(dequantize(load(checkpoint, "m.0.down_proj"))[4], 0.5f * 0x1p-7f);  // of byte 2, 0x01
}

TEST(Mxfp4, OnlyExpertsOfAStackAreLayers) {
  const auto checkpoint = open_hugging_face_folder(tool_folder(kFolder));
  for (const char* plain :
       {"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.router", "lm_head", "", "gate_proj",
        ".gate_proj", "model.layers.0.mlp.experts", "model.layers.0.mlp.experts.gate_proj",
        "model.layers.0.mlp.experts.-1.gate_proj", "model.layers.0.mlp.experts.9999999999.gate_proj",
        "model.layers.7.mlp.experts.0.up_proj", "model.layers.0.mlp.experts.0.gate_up_proj"})
    EXPECT_TRUE(kMxfp4Format.plan(*checkpoint, plain).tensors.empty()) << plain;
  const std::vector<std::string> layers = quantized_layers(*checkpoint, kMxfp4Format);
  EXPECT_EQ(layers.size(), 2u * 4 * 3);
  EXPECT_EQ(std::set(layers.begin(), layers.end()).size(), layers.size());
  EXPECT_TRUE(kMxfp4Format.unmatched_rules(*checkpoint).empty());
}

std::string message_of(const std::function<void(MemoryCheckpoint&)>& change, json config = mxfp4_config(),
                       Extent2d shape = {}) {
  SmallStack checkpoint(std::move(config));
  change(checkpoint);
  return error_of([&] { load(checkpoint, "m.0.gate_proj", shape); });
}

TEST(Mxfp4, HalvesOfAStackAreRefused) {
  EXPECT_EQ(message_of([](auto& c) { c.remove("m.gate_up_proj_scales"); }),
            "memory/model.safetensors: tensor 'm.gate_up_proj_blocks' stands alone; expected "
            "'m.gate_up_proj_scales' "
            "beside it");
  EXPECT_EQ(message_of([](auto& c) { c.remove("m.gate_up_proj_blocks"); }),
            "memory/model.safetensors: tensor 'm.gate_up_proj_scales' stands alone; expected "
            "'m.gate_up_proj_blocks' "
            "beside it");
}

TEST(Mxfp4, WrongTypesAndShapesAreRefused) {
  const std::vector<uint8_t> bytes(256, 1), scales(16, 127);
  const auto blocks_of = [&](std::vector<int64_t> shape) {
    return message_of([&](auto& c) { c.add("m.gate_up_proj_blocks", DType::kU8, shape, bytes); });
  };
  EXPECT_EQ(blocks_of({2, 4, 32}),
            "memory/model.safetensors: tensor 'm.gate_up_proj_blocks' has shape [2, 4, 32], expected "
            "[experts, out, in / "
            "32, 16] of at most 65536 experts");
  for (const auto& shape : {std::vector<int64_t>{2, 4, 4, 8}, {65537, 1, 1, 16}, {2, 0, 2, 16}, {}})
    EXPECT_THAT(blocks_of(shape), testing::HasSubstr("expected [experts, out, in / 32, 16]"));
  EXPECT_EQ(message_of([&](auto& c) {
              c.add("m.gate_up_proj_scales", DType::kU8, {2, 8}, scales);
            }),
            "memory/model.safetensors: tensor 'm.gate_up_proj_scales' has shape [2, 8], expected [2, 4, 2]");
  EXPECT_EQ(message_of([&](auto& c) {
              c.add("m.gate_up_proj_blocks", DType::kI8, {2, 4, 2, 16}, bytes);
            }),
            "memory/model.safetensors: tensor 'm.gate_up_proj_blocks' has dtype i8, expected u8");
  EXPECT_EQ(message_of([](auto&) {}, mxfp4_config(), {4, 32}),
            "memory/model.safetensors: tensor 'm.gate_up_proj_blocks' holds [2, 64] for layer "
            "'m.0.gate_proj', expected "
            "[4, 32]");
  EXPECT_THAT(message_of([&](auto& c) {
                c.add("m.gate_up_proj_blocks", DType::kU8, {2, 3, 2, 16}, std::vector<uint8_t>(192));
                c.add("m.gate_up_proj_scales", DType::kU8, {2, 3, 2}, std::vector<uint8_t>(12, 127));
              }),
              testing::HasSubstr("holds 3 rows of each expert, expected as many of the gate as of up"));
}

TEST(Mxfp4, ScalesThatAreNoNumberAreRefused) {
  EXPECT_THAT(message_of([](auto& c) {
                c.add("m.gate_up_proj_scales", DType::kU8, {2, 4, 2}, std::vector<uint8_t>(16, 255));
              }),
              testing::StartsWith("memory/model.safetensors: layer 'm.0.gate_proj'"));
}

TEST(Mxfp4, ExpertsBeyondTheStackAreRefused) {
  const SmallStack checkpoint;
  EXPECT_EQ(error_of([&] { load(checkpoint, "m.2.up_proj"); }),
            "memory/model.safetensors: tensor 'm.gate_up_proj_blocks' holds 2 experts, layer 'm.2.up_proj' "
            "is not among "
            "them");
}

TEST(Mxfp4, SettingsThatLeaveExpertsPlainContradictTheirCodes) {
  for (const char* rule : {"m", "m.*.gate_proj", "gate_proj"})
    EXPECT_EQ(message_of([](auto&) {}, mxfp4_config({"lm_head", rule})),
              cat("memory/model.safetensors: tensor 'm.gate_up_proj_blocks' holds codes, but '", rule,
                  "' in memory/config.json leaves layer 'm.0.gate_proj' plain"));
  EXPECT_EQ(kMxfp4Format.unmatched_rules(SmallStack(mxfp4_config({"lm_head"}))),
            std::vector<std::string>{"lm_head"});
}

TEST(Mxfp4, SettingsThatAreNoListAreRefused) {
  json config = mxfp4_config();
  config["quantization_config"]["modules_to_not_convert"] = 5;
  EXPECT_THAT(message_of([](auto&) {}, config), testing::HasSubstr("key 'modules_to_not_convert'"));
}

// Every byte of the published layout is used: all stacks, and nothing else, are quantized.
TEST(Mxfp4, EveryStackIsUsed) {
  const auto checkpoint = open_hugging_face_folder(tool_folder(kFolder));
  std::set<std::string> used;
  for (const std::string& layer : quantized_layers(*checkpoint, kMxfp4Format)) {
    const LayerPlan plan = kMxfp4Format.plan(*checkpoint, layer);
    used.insert(plan.tensors.begin(), plan.tensors.end());
  }
  for (const TensorInfo& tensor : checkpoint->tensors())
    EXPECT_EQ(used.contains(tensor.name), tensor.dtype == DType::kU8) << tensor.name;
  EXPECT_EQ(load(*checkpoint, kGate).shape, (Extent2d{96, 64}));
  EXPECT_TRUE(used.contains(cat(kStack, "_scales")));
}

}  // namespace
}  // namespace quaver
