// AWQ checkpoints: the interleaved order, skip lists by whole components, older names, and layouts that are
// refused.
#include "formats/auto_awq.h"

#include "format_checks.h"

namespace quaver {
namespace {

json awq_settings(json more = json::object()) {
  json value = {
      {"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}, {"version", "gemm"}};
  value.update(more);
  return {{"quantization_config", value}};
}

// The published example: columns 0..7 holding 0..7 make this word.
TEST(AutoAwq, WordOrderIsThatOfTheSpecification) {
  PlainLayer layer{.bits = 4, .out = 8, .in = 32, .group = 32};
  for (int64_t n = 0; n < 8; ++n)
    for (int64_t k = 0; k < 32; ++k) layer.codes.push_back(static_cast<int>(n));
  layer.zeros.assign(8, 3);
  layer.scales.assign(8, 0.5f);
  MemoryCheckpoint checkpoint(awq_settings({{"group_size", 32}}));
  add_interleaved(checkpoint, "layer", layer);
  EXPECT_EQ(checkpoint.read("layer.qweight").data.as<uint32_t>()[0], 0x75316420u);
  const QuantWeight weight = load(checkpoint, "layer");
  expect_same_values(weight, layer);
  expect_same_tensors(kAutoAwqFormat.pack(weight, "layer", {.sym = false}), checkpoint);
}

TEST(AutoAwq, AsymmetricLayersReadAndPack) {
  for (const int64_t group : {32, 128, -1}) {
    const PlainLayer layer = PlainLayer::random(4, 64, 256, group == -1 ? 256 : group, false);
    MemoryCheckpoint checkpoint(awq_settings({{"group_size", group}}));
    add_interleaved(checkpoint, "layer", layer);
    const QuantWeight weight = load(checkpoint, "layer");
    expect_same_values(weight, layer);
    expect_same_tensors(kAutoAwqFormat.pack(weight, "layer", {.group_size = group, .sym = false}),
                        checkpoint);
  }
}

// zero_point false still has zero points in the file, all in the middle.
TEST(AutoAwq, SymmetricLayersKeepTheirZeroPoints) {
  PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  MemoryCheckpoint checkpoint(awq_settings({{"zero_point", false}}));
  add_interleaved(checkpoint, "layer", layer);
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(weight.offset));
  expect_same_values(weight, layer);
  expect_same_tensors(kAutoAwqFormat.pack(weight, "layer", {}), checkpoint);

  layer.zeros[4] = 7;
  MemoryCheckpoint odd(awq_settings({{"zero_point", false}}));
  add_interleaved(odd, "layer", layer);
  EXPECT_NE(error_of([&] { load(odd, "layer"); }).find("holds zero points other than 8"), std::string::npos);
}

TEST(AutoAwq, SkipListMatchesWholeComponentsAndMayBeAbsent) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  for (const json& skipped : {json::parse(R"(["visual"])"), json()}) {
    MemoryCheckpoint checkpoint(awq_settings({{"modules_to_not_convert", skipped}}));
    add_interleaved(checkpoint, "model.layers.0.visualize_proj", layer);
    checkpoint.add("visual.blocks.0.attn.qkv.weight", DType::kF32, {1, 1}, std::vector<float>{1});
    EXPECT_TRUE(kAutoAwqFormat.plan(checkpoint, "visual.blocks.0.attn.qkv").tensors.empty());
    expect_same_values(load(checkpoint, "model.layers.0.visualize_proj"), layer);
    EXPECT_TRUE(kAutoAwqFormat.unmatched_rules(checkpoint).empty());
  }
}

TEST(AutoAwq, FirstFilesHaveOtherNames) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 64, false);
  MemoryCheckpoint checkpoint(json::object());
  checkpoint.add_sidecar("quant_config.json",
                         {{"w_bit", 4}, {"q_group_size", 64}, {"zero_point", true}, {"version", "GEMM"}});
  add_interleaved(checkpoint, "layer", layer);
  expect_same_values(load(checkpoint, "layer"), layer);
}

TEST(AutoAwq, OtherLayoutsAreNamed) {
  MemoryCheckpoint checkpoint(awq_settings({{"version", "gemv"}}));
  EXPECT_EQ(error_of([&] { detect_format(checkpoint); }),
            "memory/config.json: version 'gemv' is not supported; 'gemm' is");
}

// A file in another layout that says gemm does not fit the shapes of gemm.
TEST(AutoAwq, WrongLayoutUnderTheRightNameIsNamed) {
  MemoryCheckpoint checkpoint(awq_settings());
  add_along_in(checkpoint, "layer", PlainLayer::random(4, 64, 256, 128, false), 0);
  EXPECT_EQ(error_of([&] { load(checkpoint, "layer"); }),
            "memory/model.safetensors: tensor 'layer.scales' has shape [2, 64], expected [1, 512] for 4 "
            "bits, group 128 by "
            "the defaults of the quantization settings");
}

TEST(AutoAwq, OnlyFourBitsAreWritten) {
  const PlainLayer layer = PlainLayer::random(8, 64, 256, 128, true);
  MemoryCheckpoint checkpoint(
      json{{"quantization_config", {{"quant_method", "gptq"}, {"bits", 8}, {"group_size", 128}}}});
  add_along_in(checkpoint, "layer", layer, 1);
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(error_of([&] { kAutoAwqFormat.pack(weight, "layer", {.bits = 8}); }),
            "layer 'layer': this packing holds 4 bits, got 8");
  EXPECT_EQ(error_of([&] { kAutoAwqFormat.config_json({.bits = 8}); }), "this format holds 4 bits, got 8");
  EXPECT_EQ(error_of([&] {
              kAutoAwqFormat.config_json({.layer_overrides = {{"a", {{"bits", 8}}}}});
            }),
            "layer 'a': this format has one scheme for all layers");
}

}  // namespace
}  // namespace quaver
