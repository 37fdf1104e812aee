// AutoRound checkpoints: packings, rules, block scope, padding, and where settings and tensors
// disagree.
#include "formats/auto_round.h"

#include "format_checks.h"

namespace quaver {
namespace {

json auto_round_settings(json more = json::object()) {
  json value = {{"quant_method", "auto-round"},
                {"bits", 4},
                {"group_size", 128},
                {"sym", true},
                {"packing_format", "auto_round:auto_gptq"}};
  value.update(more);
  return {{"quantization_config", value}};
}

using Names = std::vector<std::string>;

TEST(AutoRound, MethodHasSeveralSpellings) {
  for (const char* method : {"auto-round", "auto_round", "intel/auto-round", "AutoRound", "inc"})
    EXPECT_EQ(detect_format(MemoryCheckpoint(auto_round_settings({{"quant_method", method}}))),
              find_format("auto_round"))
        << method;
}

// What follows the layout names a kernel; the zero point is stored as z - 1 or as z.
TEST(AutoRound, PackingDecidesLayoutAndZeroPoints) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  const std::pair<const char*, int> along_in[] = {
      {"auto_round:auto_gptq", 1}, {"auto_round:gptq", 1},    {"auto_round:gptq:exllamav2", 1},
      {"auto_round:gptqmodel", 0}, {"auto_round", 0},         {"auto_round:exllamav2", 0},
      {"autoround:exllamav2", 0},  {"auto_round:tritonv2", 0}};
  for (const auto& [packing, offset] : along_in) {
    MemoryCheckpoint checkpoint(auto_round_settings({{"sym", false}, {"packing_format", packing}}));
    add_along_in(checkpoint, "layer", layer, offset);
    expect_same_values(load(checkpoint, "layer"), layer);
  }
  for (const char* packing : {"auto_round:auto_awq", "auto_round:awq", "auto_round:awq:gemm"}) {
    MemoryCheckpoint checkpoint(auto_round_settings({{"sym", false}, {"packing_format", packing}}));
    add_interleaved(checkpoint, "layer", layer);
    expect_same_values(load(checkpoint, "layer"), layer);
  }
}

TEST(AutoRound, OlderFilesNameThePackingAsBackend) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  json config = auto_round_settings({{"sym", false}, {"backend", "autoround:exllamav2"}});
  config["quantization_config"].erase("packing_format");
  MemoryCheckpoint checkpoint(config);
  add_along_in(checkpoint, "layer", layer, 0);
  expect_same_values(load(checkpoint, "layer"), layer);
}

TEST(AutoRound, AbsentPackingIsTheDefault) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  json config = auto_round_settings({{"sym", false}});
  config["quantization_config"].erase("packing_format");
  MemoryCheckpoint checkpoint(config);
  add_along_in(checkpoint, "layer", layer, 1);
  expect_same_values(load(checkpoint, "layer"), layer);
}

TEST(AutoRound, EveryWidthAndGroupReads) {
  for (int bits = 2; bits <= 8; ++bits)
    for (const int64_t group : {32, 64, 128, -1})
      for (const bool sym : {true, false}) {
        const int64_t columns = group == -1 ? 288 : group;
        const PlainLayer layer = PlainLayer::random(bits, 32, 288, columns, sym, static_cast<unsigned>(bits));
        const json own = {
            {"bits", bits}, {"group_size", group}, {"sym", sym}, {"packing_format", "auto_round"}};
        MemoryCheckpoint checkpoint(auto_round_settings(own));
        add_along_in(checkpoint, "layer", layer, 0);
        expect_same_values(load(checkpoint, "layer"), layer);
      }
}

TEST(AutoRound, InterleavedWidthsOtherThanFourRead) {
  for (int bits = 4; bits <= 7; ++bits) {
    const PlainLayer layer = PlainLayer::random(bits, 64, 192, 128, false, static_cast<unsigned>(bits));
    MemoryCheckpoint checkpoint(
        auto_round_settings({{"bits", bits}, {"sym", false}, {"packing_format", "auto_round:auto_awq"}}));
    add_interleaved(checkpoint, "layer", layer);
    expect_same_values(load(checkpoint, "layer"), layer);
  }
}

TEST(AutoRound, UnsupportedPackingIsNamed) {
  for (const char* packing : {"auto_round:llm_compressor", "auto_round:fp8_static", "mlx"}) {
    MemoryCheckpoint checkpoint(auto_round_settings({{"packing_format", packing}}));
    const std::string message = error_of([&] {
      checkpoint.add("l.weight", DType::kF32, {1}, std::vector<float>{0});
      detect_format(checkpoint)->plan(checkpoint, "l");
    });
    EXPECT_EQ(message.find(cat("memory/config.json: packing_format '", packing, "' is not supported")), 0u)
        << message;
  }
}

TEST(AutoRound, KeysThatChangeTheMeaningAreRefused) {
  const auto refused = [](json more) {
    MemoryCheckpoint checkpoint(auto_round_settings(std::move(more)));
    return error_of([&] { detect_format(checkpoint); });
  };
  EXPECT_NE(refused({{"rotation_config", {{"kind", "hadamard"}}}}).find("key 'rotation_config' is set"),
            std::string::npos);
  EXPECT_NE(refused({{"act_bits", 8}}).find("key 'act_bits' asks for 8-bit activations"), std::string::npos);
  EXPECT_NE(
      refused({{"data_type", "mx_fp"}, {"bits", 6}}).find("data_type 'mx_fp' with 6 bits is not supported"),
      std::string::npos);
  EXPECT_EQ(refused({{"rotation_config", nullptr}, {"act_bits", 16}, {"iters", 200}, {"something_new", 1}}),
            "");
}

// An exact name beats a pattern; a pattern may leave layers plain.
TEST(AutoRound, ExtraConfigHasPatternsAndExactNames) {
  MemoryCheckpoint checkpoint(auto_round_settings(
      {{"extra_config",
        {{".*layers\\.0\\..*", {{"bits", 16}, {"data_type", "float"}}},
         {".*down_proj.*", {{"bits", 2}}},
         {"model.layers.1.mlp.down_proj", {{"bits", 8}, {"group_size", 32}, {"sym", false}}},
         {"o_proj", {{"bits", 3}}}}}}));
  const PlainLayer down = PlainLayer::random(8, 64, 256, 32, false),
                   up = PlainLayer::random(4, 64, 256, 128, true),
                   out = PlainLayer::random(3, 64, 256, 128, true);
  add_along_in(checkpoint, "model.layers.1.mlp.down_proj", down, 1);
  add_along_in(checkpoint, "model.layers.1.mlp.up_proj", up, 1);
  add_along_in(checkpoint, "model.layers.1.self_attn.o_proj", out, 1);
  checkpoint.add("model.layers.0.mlp.up_proj.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  expect_same_values(load(checkpoint, "model.layers.1.mlp.down_proj"), down);
  expect_same_values(load(checkpoint, "model.layers.1.mlp.up_proj"), up);
  expect_same_values(load(checkpoint, "model.layers.1.self_attn.o_proj"), out);
  EXPECT_TRUE(kAutoRoundFormat.plan(checkpoint, "model.layers.0.mlp.up_proj").tensors.empty());
  EXPECT_EQ(kAutoRoundFormat.unmatched_rules(checkpoint), Names{});
}

// Parts of what an engine may fuse have widths of their own.
TEST(AutoRound, MixedWidthsInsideOneGroupRead) {
  MemoryCheckpoint checkpoint(
      auto_round_settings({{"extra_config",
                            {{"model.layers.0.self_attn.q_proj", {{"bits", 4}}},
                             {"model.layers.0.self_attn.k_proj", {{"bits", 8}}},
                             {"model.layers.0.self_attn.v_proj", {{"bits", 16}, {"data_type", "float"}}},
                             {"model.layers.1.mlp.gate_proj", {{"bits", 2}}}}}}));
  const std::pair<const char*, int> widths[] = {{"model.layers.0.self_attn.q_proj", 4},
                                                {"model.layers.0.self_attn.k_proj", 8},
                                                {"model.layers.1.mlp.gate_proj", 2},
                                                {"model.layers.1.mlp.up_proj", 4}};
  for (const auto& [name, bits] : widths)
    add_along_in(checkpoint, name, PlainLayer::random(bits, 64, 256, 128, true), 1);
  checkpoint.add("model.layers.0.self_attn.v_proj.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  for (const auto& [name, bits] : widths)
    expect_same_values(load(checkpoint, name), PlainLayer::random(bits, 64, 256, 128, true));
  EXPECT_TRUE(kAutoRoundFormat.plan(checkpoint, "model.layers.0.self_attn.v_proj").tensors.empty());
}

TEST(AutoRound, BlockScopeHasThreeSpellings) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  for (const json& blocks : {json("thinker.model.layers"), json::parse(R"(["thinker.model.layers"])"),
                             json("thinker.model.layers,thinker.visual.merger")}) {
    MemoryCheckpoint checkpoint(auto_round_settings({{"block_name_to_quantize", blocks}}));
    add_along_in(checkpoint, "thinker.model.layers.0.mlp.gate_proj", layer, 1);
    for (const char* plain :
         {"talker.model.layers.0.mlp.gate_proj", "thinker.lm_head", "thinker.visual.merger"})
      checkpoint.add(cat(plain, ".weight"), DType::kF32, {1, 1}, std::vector<float>{1});
    expect_same_values(load(checkpoint, "thinker.model.layers.0.mlp.gate_proj"), layer);
    for (const char* plain :
         {"talker.model.layers.0.mlp.gate_proj", "thinker.lm_head", "thinker.visual.merger"})
      EXPECT_TRUE(kAutoRoundFormat.plan(checkpoint, plain).tensors.empty()) << plain;
  }
}

TEST(AutoRound, SettingsInASubConfigApply) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  MemoryCheckpoint checkpoint(json{{"thinker_config", {{"text_config", auto_round_settings()}}}});
  add_along_in(checkpoint, "thinker.model.layers.0.q_proj", layer, 1);
  expect_same_values(load(checkpoint, "thinker.model.layers.0.q_proj"), layer);
}

// A rule for the router also hits a dense gate_proj by search; the tensors say that this one is packed.
TEST(AutoRound, PackedTensorsBeatARuleThatSaysPlain) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  MemoryCheckpoint checkpoint(
      auto_round_settings({{"extra_config", {{".*mlp\\.gate.*", {{"bits", 16}, {"data_type", "float"}}}}}}));
  add_along_in(checkpoint, "model.layers.0.mlp.gate_proj", layer, 1);
  expect_same_values(load(checkpoint, "model.layers.0.mlp.gate_proj"), layer);
}

TEST(AutoRound, ShapesBeatARuleThatDoesNotFit) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  MemoryCheckpoint checkpoint(
      auto_round_settings({{"extra_config", {{".*q_proj.*", {{"bits", 2}, {"group_size", 32}}}}}}));
  add_along_in(checkpoint, "model.layers.0.q_proj", layer, 1);
  expect_same_values(load(checkpoint, "model.layers.0.q_proj"), layer);
}

TEST(AutoRound, ShapesThatFitNoRuleAreNamed) {
  MemoryCheckpoint checkpoint(auto_round_settings());
  add_along_in(checkpoint, "layer", PlainLayer::random(8, 64, 256, 128, true), 1);
  EXPECT_EQ(error_of([&] { load(checkpoint, "layer"); }),
            "memory/model.safetensors: tensor 'layer.scales' has shape [2, 64], expected [4, 64] for 4 bits, "
            "group 128 "
            "by the defaults of the quantization settings");
}

// K = 576 with groups of 128: the packed rows may be 72, or 80 when the last group was filled up.
TEST(AutoRound, PaddedAndUnpaddedRowsRead) {
  PlainLayer layer = PlainLayer::random(4, 64, 576, 128, true);
  MemoryCheckpoint unpadded(auto_round_settings());
  add_along_in(unpadded, "layer", layer, 1);
  EXPECT_EQ(unpadded.find("layer.qweight")->shape, (std::vector<int64_t>{72, 64}));
  expect_same_values(load(unpadded, "layer", {64, 576}), layer);
  expect_same_values(load(unpadded, "layer"), layer);

  PlainLayer filled = PlainLayer::random(4, 64, 640, 128, true);
  filled.scales = layer.scales, filled.zeros = layer.zeros;
  for (int64_t n = 0; n < 64; ++n)
    for (int64_t k = 0; k < 576; ++k)
      filled.codes[static_cast<size_t>(n * 640 + k)] = layer.codes[static_cast<size_t>(n * 576 + k)];
  MemoryCheckpoint padded(auto_round_settings());
  add_along_in(padded, "layer", filled, 1);
  EXPECT_EQ(padded.find("layer.qweight")->shape, (std::vector<int64_t>{80, 64}));
  expect_same_values(load(padded, "layer", {64, 576}), layer);
  EXPECT_EQ(error_of([&] {
              load(padded, "layer", {64, 448});
            }),
            "memory/model.safetensors: layer 'layer' holds [64, 640] packed, expected [64, 448]");
  EXPECT_EQ(error_of([&] {
              load(padded, "layer", {32, 576});
            }),
            "memory/model.safetensors: layer 'layer' holds [64, 640] packed, expected [32, 576]");
}

// A row that ends inside a byte keeps nothing of the padding behind it.
TEST(AutoRound, CuttingPaddingClearsTheLastByte) {
  PlainLayer filled = PlainLayer::random(3, 32, 128, 32, true);
  for (int& code : filled.codes) code = 7;
  MemoryCheckpoint checkpoint(auto_round_settings({{"bits", 3}, {"group_size", 32}}));
  add_along_in(checkpoint, "layer", filled, 1);
  const QuantWeight weight = load(checkpoint, "layer", {32, 100});
  EXPECT_EQ(weight.row_bytes(), 38);
  EXPECT_EQ(weight.num_group_cols(), 4);
  for (int64_t n = 0; n < 32; ++n)
    EXPECT_EQ(weight.codes.bytes()[static_cast<size_t>(n * 38 + 37)], std::byte{0x0F});
}

TEST(AutoRound, PartsThatAreMissingOrLeftOverAreNamed) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  for (const char* missing : {"qzeros", "scales"}) {
    MemoryCheckpoint whole(auto_round_settings()), cut(auto_round_settings());
    add_along_in(whole, "layer", layer, 1);
    for (const TensorInfo& info : whole.tensors())
      if (!info.name.ends_with(missing)) cut.add(info.name, whole.read(info.name));
    EXPECT_EQ(error_of([&] { load(cut, "layer"); }),
              cat("memory: tensor 'layer.", missing, "' is missing although its layer is packed"));
  }
  MemoryCheckpoint both(auto_round_settings());
  add_along_in(both, "layer", layer, 1);
  both.add("layer.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  EXPECT_EQ(error_of([&] { load(both, "layer"); }),
            "memory/model.safetensors: tensor 'layer.weight' stands beside 'layer.qweight'; a layer has one "
            "or the other");
  MemoryCheckpoint rest(auto_round_settings());
  rest.add("layer.scales", DType::kF32, {1, 1}, std::vector<float>{1});
  EXPECT_EQ(error_of([&] { load(rest, "layer"); }),
            "memory/model.safetensors: tensor 'layer.scales' has no 'layer.qweight' beside it");
}

TEST(AutoRound, WrongDtypesAndRanksAreNamed) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  const auto with = [&](const std::string& part, TensorView view) {
    MemoryCheckpoint whole(auto_round_settings()), changed(auto_round_settings());
    add_along_in(whole, "layer", layer, 1);
    for (const TensorInfo& info : whole.tensors())
      changed.add(info.name, info.name == part ? view : whole.read(info.name));
    return error_of([&] { load(changed, "layer"); });
  };
  const Buffer bytes = Buffer::copy_of(std::vector<uint8_t>(32 * 64 * 4, 0x77));
  EXPECT_EQ(with("layer.qweight", {DType::kF32, {32, 64}, bytes}),
            "memory/model.safetensors: tensor 'layer.qweight' has dtype f32, expected i32");
  EXPECT_EQ(with("layer.qweight", {DType::kI32, {32 * 64}, bytes}),
            "memory/model.safetensors: tensor 'layer.qweight' has shape [2048], expected two dimensions");
  EXPECT_EQ(with("layer.scales", {DType::kI32, {32, 64}, bytes}),
            "memory/model.safetensors: tensor 'layer.scales' has dtype i32, expected f16");
  EXPECT_EQ(with("layer.qweight", {DType::kI32, {0, 64}, {}}),
            "memory/model.safetensors: tensor 'layer.qweight' has shape [0, 64], expected two dimensions");
}

TEST(AutoRound, NonFiniteScalesAreRefused) {
  PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  layer.scales[5] = std::numeric_limits<float>::infinity();
  MemoryCheckpoint checkpoint(auto_round_settings());
  add_along_in(checkpoint, "layer", layer, 1);
  EXPECT_EQ(error_of([&] { load(checkpoint, "layer"); }),
            "memory/model.safetensors: layer 'layer': entry 10 of 128 scales is not finite");
}

TEST(AutoRound, SymmetricLayersWithOtherZeroPointsAreRefused) {
  PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  layer.zeros[3] = 5;
  MemoryCheckpoint checkpoint(auto_round_settings());
  add_along_in(checkpoint, "layer", layer, 1);
  EXPECT_EQ(error_of([&] { load(checkpoint, "layer"); }),
            "memory/model.safetensors: layer 'layer': the quantization settings say symmetric, but "
            "'layer.qzeros' holds "
            "zero points other than 7");
}

TEST(AutoRound, PackingFollowsTheRecipe) {
  const auto packing = [](const Recipe& recipe) {
    return kAutoRoundFormat.config_json(recipe).at("packing_format").get<std::string>();
  };
  EXPECT_EQ(packing({}), "auto_round:auto_gptq");
  EXPECT_EQ(packing({.bits = 2, .sym = true}), "auto_round:auto_gptq");
  EXPECT_EQ(packing({.sym = false}), "auto_round:auto_awq");
  EXPECT_EQ(packing({.bits = 3, .sym = false}), "auto_round");
  EXPECT_EQ(packing({.sym = false, .layer_overrides = {{"a", {{"bits", 16}}}}}), "auto_round:auto_awq");
  EXPECT_EQ(packing({.sym = false, .layer_overrides = {{"a", {{"bits", 8}}}}}), "auto_round");
}

// An asymmetric zero point of 0 is legal in two of three packings.
TEST(AutoRound, ZeroPointZeroIsWrittenWhereItCanBe) {
  PlainLayer layer = PlainLayer::random(3, 64, 256, 128, false);
  layer.zeros[0] = 0;
  MemoryCheckpoint checkpoint(
      auto_round_settings({{"bits", 3}, {"sym", false}, {"packing_format", "auto_round"}}));
  add_along_in(checkpoint, "layer", layer, 0);
  const QuantWeight weight = load(checkpoint, "layer");
  expect_same_tensors(kAutoRoundFormat.pack(weight, "layer", {.bits = 3, .sym = false}), checkpoint);
  EXPECT_EQ(error_of([&] { kAutoRoundFormat.pack(weight, "layer", {.bits = 3, .sym = true}); }),
            "layer 'layer': zero point 0 of row 0, group 0 can't be stored by a format that subtracts one; "
            "zero points must "
            "be in [1, 7]");
}

TEST(AutoRound, ShapesThatDoNotFillWordsAreNotPacked) {
  PlainLayer layer = PlainLayer::random(4, 60, 256, 128, true);
  MemoryCheckpoint checkpoint(auto_round_settings());
  add_along_in(checkpoint, "layer", layer, 1);
  const QuantWeight weight = load(checkpoint, "layer");  // reading is fine
  expect_same_values(weight, layer);
  EXPECT_EQ(error_of([&] { kAutoRoundFormat.pack(weight, "layer", {}); }),
            "layer 'layer': [60, 256] at 4 bits does not fill whole words; keep it at 16 bits");
}

}  // namespace
}  // namespace quaver
