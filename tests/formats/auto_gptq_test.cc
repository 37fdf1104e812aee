// GPTQ checkpoints: both zero conventions, wrong labels, activation order, and the table of overrides.
#include "formats/auto_gptq.h"

#include <ctime>
#include <numeric>

#include "format_checks.h"

namespace quaver {
namespace {

json gptq_settings(json more = json::object()) {
  json value = {
      {"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"sym", true}, {"desc_act", false}};
  value.update(more);
  return {{"quantization_config", value}};
}

struct ZeroCase {
  json config;
  int stored_offset;
};

TEST(AutoGptq, SymmetricZeroPointsReadUnderEitherLabel) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, true);
  const ZeroCase cases[] = {{gptq_settings({{"checkpoint_format", "gptq"}}), 1},
                            {gptq_settings({{"checkpoint_format", "gptq_v2"}}), 0},
                            {gptq_settings({{"checkpoint_format", "gptq"}}), 0},  // wrong label: recognised
                            {gptq_settings({{"checkpoint_format", "gptq_v2"}}), 1},
                            {gptq_settings(), 1},
                            {gptq_settings({{"format", "gptq_v2"}}), 0}};
  for (const ZeroCase& which : cases) {
    MemoryCheckpoint checkpoint(which.config);
    add_along_in(checkpoint, "layer", layer, which.stored_offset);
    expect_same_values(load(checkpoint, "layer"), layer);
  }
}

TEST(AutoGptq, AsymmetricZeroPointsFollowTheLabel) {
  const PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  for (const auto& [label, offset] : {std::pair{"gptq", 1}, std::pair{"gptq_v2", 0}}) {
    MemoryCheckpoint checkpoint(gptq_settings({{"sym", false}, {"checkpoint_format", label}}));
    add_along_in(checkpoint, "layer", layer, offset);
    expect_same_values(load(checkpoint, "layer"), layer);
  }
}

// The documented rule: z - 1 of 0 wraps to the largest code, and no quantizer makes a zero point of 2^bits.
TEST(AutoGptq, StoredFifteenIsZeroPointZero) {
  PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  layer.zeros[9] = 16;  // stored as 15
  MemoryCheckpoint checkpoint(gptq_settings({{"sym", false}}));
  add_along_in(checkpoint, "layer", layer, 1);
  layer.zeros[9] = 0;
  expect_same_values(load(checkpoint, "layer"), layer);
}

TEST(AutoGptq, ThreeBitsSpanWords) {
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{64, 256}, {32, 96}})
    for (const bool sym : {true, false}) {
      PlainLayer layer = PlainLayer::random(3, out, in, 128, sym);
      for (int64_t k = 0; k < in; ++k) layer.codes[static_cast<size_t>(k)] = static_cast<int>(k % 8);
      MemoryCheckpoint checkpoint(gptq_settings({{"bits", 3}, {"sym", sym}}));
      add_along_in(checkpoint, "layer", layer, 1);
      EXPECT_EQ(checkpoint.find("layer.qweight")->shape, (std::vector<int64_t>{in * 3 / 32, out}));
      EXPECT_EQ(checkpoint.find("layer.qzeros")->shape,
                (std::vector<int64_t>{(in + 127) / 128, out * 3 / 32}));
      expect_same_values(load(checkpoint, "layer"), layer);
    }
}

TEST(AutoGptq, ShortLastGroupReads) {
  const PlainLayer layer = PlainLayer::random(4, 64, 192, 128, true);
  MemoryCheckpoint checkpoint(gptq_settings());
  add_along_in(checkpoint, "layer", layer, 1);
  EXPECT_EQ(checkpoint.find("layer.scales")->shape, (std::vector<int64_t>{2, 64}));
  expect_same_values(load(checkpoint, "layer", {64, 192}), layer);
}

// A stride that is odd visits every group in turn.
std::vector<int32_t> scattered_index(int64_t in, int64_t group) {
  std::vector<int32_t> index;
  for (int64_t k = 0; k < in; ++k) index.push_back(static_cast<int32_t>(k * 77 % in / group));
  return index;
}

TEST(AutoGptq, GroupIndexIsObeyedWhateverTheFlagSays) {
  for (const bool flag : {true, false})
    for (const int64_t in : {256, 208}) {  // 208: the last group is short
      PlainLayer layer = PlainLayer::random(4, 64, in, 32, true);
      layer.group_index = scattered_index(in, 32);
      MemoryCheckpoint checkpoint(gptq_settings({{"group_size", 32}, {"desc_act", flag}}));
      add_along_in(checkpoint, "layer", layer, 1);
      const QuantWeight weight = load(checkpoint, "layer");
      EXPECT_FALSE(weight.permutation.empty());
      expect_same_values(weight, layer);
      expect_same_tensors(kAutoGptqFormat.pack(weight, "layer", {.group_size = 32}), checkpoint);
    }
}

TEST(AutoGptq, TrivialGroupIndexIsNoPermutation) {
  PlainLayer layer = PlainLayer::random(4, 64, 256, 32, true);
  for (int k = 0; k < 256; ++k) layer.group_index.push_back(k / 32);
  MemoryCheckpoint checkpoint(gptq_settings({{"group_size", 32}, {"desc_act", true}}));
  add_along_in(checkpoint, "layer", layer, 1);
  EXPECT_TRUE(load(checkpoint, "layer").permutation.empty());
}

TEST(AutoGptq, GroupIndexOfZerosIsAPlaceholderUnlessTheFlagStandsByIt) {
  PlainLayer whole_row = PlainLayer::random(4, 64, 256, 256, true);
  whole_row.group_index.assign(256, 0);
  MemoryCheckpoint one_group(gptq_settings({{"group_size", -1}, {"desc_act", true}}));
  add_along_in(one_group, "layer", whole_row, 1);
  expect_same_values(load(one_group, "layer"), whole_row);

  PlainLayer grouped = PlainLayer::random(4, 64, 256, 32, true);
  grouped.group_index.assign(256, 0);
  MemoryCheckpoint placeholder(gptq_settings({{"group_size", 32}}));
  add_along_in(placeholder, "layer", grouped, 1);
  const QuantWeight weight = load(placeholder, "layer");
  grouped.group_index.clear();
  expect_same_values(weight, grouped);

  grouped.group_index.assign(256, 0);
  MemoryCheckpoint earnest(gptq_settings({{"group_size", 32}, {"desc_act", true}}));
  add_along_in(earnest, "layer", grouped, 1);
  EXPECT_EQ(error_of([&] { load(earnest, "layer"); }),
            "memory/model.safetensors: tensor 'layer.g_idx' puts more than 32 channels into group 0");
}

TEST(AutoGptq, GroupIndexOutOfRangeIsNamed) {
  for (const int bad : {-1, 8}) {
    PlainLayer layer = PlainLayer::random(4, 64, 256, 32, true);
    for (int k = 0; k < 256; ++k) layer.group_index.push_back(k / 32);
    MemoryCheckpoint checkpoint(gptq_settings({{"group_size", 32}}));
    PlainLayer stored = layer;
    stored.group_index[17] = bad;
    add_along_in(checkpoint, "layer", stored, 1);
    EXPECT_EQ(
        error_of([&] { load(checkpoint, "layer"); }),
        cat("memory/model.safetensors: tensor 'layer.g_idx' puts channel 17 into group ", bad, " of 8"));
  }
}

TEST(AutoGptq, DynamicTableSkipsAndOverrides) {
  MemoryCheckpoint checkpoint(
      gptq_settings({{"dynamic",
                      {{"+:.*layers\\.0\\..*down_proj.*", {{"bits", 8}, {"group_size", 64}}},
                       {"-:.*layers\\.1\\..*", json::object()}}}}));
  const PlainLayer down = PlainLayer::random(8, 64, 256, 64, true),
                   up = PlainLayer::random(4, 64, 256, 128, true);
  add_along_in(checkpoint, "model.layers.0.mlp.down_proj", down, 1);
  add_along_in(checkpoint, "model.layers.0.mlp.up_proj", up, 1);
  checkpoint.add("model.layers.1.mlp.down_proj.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  expect_same_values(load(checkpoint, "model.layers.0.mlp.down_proj"), down);
  expect_same_values(load(checkpoint, "model.layers.0.mlp.up_proj"), up);
  EXPECT_TRUE(kAutoGptqFormat.plan(checkpoint, "model.layers.1.mlp.down_proj").tensors.empty());
}

TEST(AutoGptq, TwoThousandOverridesCostLittle) {
  json table = json::object();
  for (int i = 0; i < 2000; ++i) table[cat("+:model\\.layers\\.", i, "\\.mlp\\.down_proj")] = {{"bits", 8}};
  MemoryCheckpoint checkpoint(gptq_settings({{"dynamic", table}}));
  const PlainLayer layer = PlainLayer::random(8, 64, 256, 128, true);
  for (const int i : {0, 1999}) add_along_in(checkpoint, cat("model.layers.", i, ".mlp.down_proj"), layer, 1);
  [[maybe_unused]] const std::clock_t start =
      std::clock();  // of this process, so that a busy machine does not count
  for (int layers = 0; layers < 7; ++layers)
    for (const int i : {0, 1999}) kAutoGptqFormat.plan(checkpoint, cat("model.layers.", i, ".mlp.down_proj"));
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)  // the others are slower by design
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC / 10);
#endif
  EXPECT_EQ(kAutoGptqFormat.unmatched_rules(checkpoint).size(), 1998u);
}

TEST(AutoGptq, KeysThatChangeTheMeaningAreRefused) {
  const auto refused = [](json more) {
    MemoryCheckpoint checkpoint(gptq_settings(std::move(more)));
    return error_of([&] { detect_format(checkpoint); });
  };
  EXPECT_EQ(refused({{"checkpoint_format", "marlin"}}),
            "memory/config.json: checkpoint_format 'marlin' is not supported; 'gptq' and 'gptq_v2' are");
  EXPECT_EQ(refused({{"checkpoint_format", "gptq"}, {"format", "gptq_v2"}}),
            "memory/config.json: keys 'format' and 'checkpoint_format' disagree: 'gptq_v2' and 'gptq'");
  EXPECT_EQ(refused({{"pack_dtype", "int16"}}),
            "memory/config.json: pack_dtype 'int16' is not supported; 'int32' is");
  EXPECT_NE(refused({{"rotation", "hadamard"}}).find("key 'rotation' is set (\"hadamard\")"),
            std::string::npos);
  EXPECT_NE(refused({{"dynamic", {{"+:layers.(", {{"bits", 8}}}}}}).find("is not a valid regular expression"),
            std::string::npos);
  EXPECT_EQ(
      refused(
          {{"rotation", nullptr}, {"adapter", nullptr}, {"is_marlin_format", false}, {"meta", {{"a", 1}}}}),
      "");
}

TEST(AutoGptq, ZeroPointZeroIsNotPacked) {
  PlainLayer layer = PlainLayer::random(4, 64, 256, 128, false);
  layer.zeros[1] = 0;
  MemoryCheckpoint checkpoint(gptq_settings({{"sym", false}, {"checkpoint_format", "gptq_v2"}}));
  add_along_in(checkpoint, "layer", layer, 0);
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(error_of([&] { kAutoGptqFormat.pack(weight, "layer", {.sym = false}); }),
            "layer 'layer': zero point 0 of row 1, group 0 can't be stored by a format that subtracts one; "
            "zero points must "
            "be in [1, 15]");
}

// What we write of overrides must mean the same when it is read again.
TEST(AutoGptq, WrittenOverridesReadBack) {
  const Recipe recipe{.block_names = {"model.layers"},
                      .layer_overrides = {{"model.layers.0.mlp.gate", {{"bits", 16}}},
                                          {"model.layers.0.mlp.down_proj", {{"bits", 8}, {"group_size", 32}}},
                                          {"lm_head", {{"bits", 8}}}},
                      .layers = {"model.layers.0.mlp.down_proj", "model.layers.0.mlp.gate_proj", "lm_head"}};
  const json written = kAutoGptqFormat.config_json(recipe);
  EXPECT_EQ(written.at("lm_head"), true);
  EXPECT_EQ(written.at("dynamic").at("-:model\\.layers\\.0\\.mlp\\.gate$"), json::object());
  MemoryCheckpoint checkpoint(json{{"quantization_config", written}});
  const PlainLayer down = PlainLayer::random(8, 64, 256, 32, true),
                   gate = PlainLayer::random(4, 64, 256, 128, true);
  add_along_in(checkpoint, "model.layers.0.mlp.down_proj", down, 1);
  add_along_in(checkpoint, "model.layers.0.mlp.gate_proj", gate, 1);
  expect_same_values(load(checkpoint, "model.layers.0.mlp.down_proj"), down);
  expect_same_values(load(checkpoint, "model.layers.0.mlp.gate_proj"), gate);
}

}  // namespace
}  // namespace quaver
