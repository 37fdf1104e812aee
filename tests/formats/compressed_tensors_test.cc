// compressed-tensors: packings, groups and their targets, and what is refused.
#include "formats/compressed_tensors.h"

#include <functional>

#include "numerics/e4m3fn.h"
#include "scaled_fixture.h"

namespace quaver {
namespace {

using testing::HasSubstr;
using Mode = ActivationQuant::Mode;

json int_args(int bits, const char* strategy = "group", int64_t group = 32) {
  json args = {{"num_bits", bits}, {"type", "int"}, {"strategy", strategy}, {"symmetric", true}};
  if (group > 0) args["group_size"] = group;
  return args;
}

json float_args(int bits, const char* strategy, int64_t group = 0, json more = json::object()) {
  json args = {{"num_bits", bits}, {"type", "float"}, {"strategy", strategy}};
  if (group > 0) args["group_size"] = group;
  args.update(more);
  return args;
}

json dynamic(json args) {
  args["dynamic"] = true;
  return args;
}

int code_of(int64_t n, int64_t k, int bits) {
  return static_cast<int>((n * 7 + k * 5 + k / 3) % (1 << bits));
}

// "layer.weight_packed" and its shape: a dense stream, or as many whole codes in a word as fit.
void add_words(MemoryCheckpoint& checkpoint, int64_t out, int64_t in, int bits, bool padded) {
  const int64_t per_word = 32 / bits, words = padded ? (in + per_word - 1) / per_word : (in * bits + 31) / 32;
  checkpoint.add(
      "layer.weight_packed", DType::kI32, {out, words}, pack_bits(out, words, [&](const auto& set) {
        for (int64_t n = 0; n < out; ++n)
          for (int64_t k = 0; k < in; ++k)
            for (int b = 0; b < bits; ++b) {
              const int64_t at = padded ? k / per_word * 32 + k % per_word * bits + b : k * bits + b;
              set(n, at / 32, static_cast<int>(at % 32), code_of(n, k, bits) >> b & 1);
            }
      }));
  checkpoint.add("layer.weight_shape", DType::kI64, {2}, std::vector<int64_t>{out, in});
}

TEST(CompressedTensors, WordsOfEveryWidthOldAndNew) {
  for (int bits = 2; bits <= 8; ++bits)
    for (const bool padded : {false, true}) {
      MemoryCheckpoint checkpoint(compressed_config(int_args(bits), nullptr, {{"format", "pack-quantized"}}));
      add_words(checkpoint, 4, 128, bits, padded);
      add_floats(checkpoint, "layer.weight_scale", {4, 4});
      const std::vector<float> values = dequantize(load(checkpoint, "layer", {4, 128}));
      for (int64_t n = 0; n < 4; ++n)
        for (int64_t k = 0; k < 128; ++k)
          ASSERT_EQ(values[static_cast<size_t>(n * 128 + k)],
                    static_cast<float>(code_of(n, k, bits) - (1 << (bits - 1))) *
                        (0.5f + 0.25f * static_cast<float>(n * 4 + k / 32)))
              << bits << " bits";
    }
}

// The shape says where the last word ends.
TEST(CompressedTensors, InputsThatFillNoWholeWord) {
  MemoryCheckpoint checkpoint(compressed_config(int_args(4, "channel", 0)));
  add_words(checkpoint, 4, 20, 4, false);
  add_floats(checkpoint, "layer.weight_scale", {4, 1});
  const QuantWeight weight = load(checkpoint, "layer", {4, 20});
  EXPECT_EQ(weight.shape, (Extent2d{4, 20}));
  EXPECT_EQ(dequantize(weight)[19], 0.5f * static_cast<float>(code_of(0, 19, 4) - 8));
}

TEST(CompressedTensors, ZeroPointsRunAlongTheOutput) {
  for (const int bits : {3, 4, 8}) {
    json args = int_args(bits);
    args["symmetric"] = false;
    MemoryCheckpoint checkpoint(compressed_config(args));
    add_words(checkpoint, 32, 64, bits, false);
    add_floats(checkpoint, "layer.weight_scale", {32, 2});
    checkpoint.add("layer.weight_zero_point", DType::kI32, {bits, 2},
                   pack_bits(bits, 2, [&](const auto& set) {
                     for (int64_t n = 0; n < 32; ++n)
                       for (int64_t g = 0; g < 2; ++g)
                         for (int b = 0; b < bits; ++b)
                           set((n * bits + b) / 32, g, static_cast<int>((n * bits + b) % 32),
                               code_of(n, g, bits) >> b & 1);
                   }));
    const std::vector<float> values = dequantize(load(checkpoint, "layer"));
    for (int64_t n = 0; n < 32; ++n)
      for (int64_t k = 0; k < 64; ++k)
        ASSERT_EQ(values[static_cast<size_t>(n * 64 + k)],
                  static_cast<float>(code_of(n, k, bits) - code_of(n, k / 32, bits)) *
                      (0.5f + 0.25f * static_cast<float>(n * 2 + k / 32)));
  }
}

TEST(CompressedTensors, ActivationOrder) {
  json args = int_args(4);
  args["actorder"] = "group";
  MemoryCheckpoint checkpoint(compressed_config(args));
  add_words(checkpoint, 4, 64, 4, false);
  add_floats(checkpoint, "layer.weight_scale", {4, 2});
  EXPECT_THAT(load_error(checkpoint), HasSubstr("tensor 'weight_g_idx' is missing"));
  std::vector<int32_t> index(64);
  for (size_t k = 0; k < 64; ++k) index[k] = static_cast<int32_t>(k % 2);
  checkpoint.add("layer.weight_g_idx", DType::kI32, {64}, index);
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(dequantize(weight)[1], 0.75f * static_cast<float>(code_of(0, 1, 4) - 8));
  const auto packed = kCompressedTensorsFormat.pack(weight, "layer", {.group_size = 32});
  EXPECT_EQ(packed.size(), 4u);
  expect_same_tensors(packed, checkpoint);
}

// Four bits in whole bytes, for engines that take int8 activations.
TEST(CompressedTensors, NarrowIntegersInBytes) {
  const json config = compressed_config(int_args(4, "channel", 0), dynamic(int_args(8, "token", 0)),
                                        {{"format", "int-quantized"}});
  MemoryCheckpoint checkpoint(config);
  checkpoint.add("layer.weight", DType::kI8, {2, 4}, std::vector<int8_t>{-8, -1, 0, 7, 1, 2, 3, 4});
  add_floats(checkpoint, "layer.weight_scale", {2, 1});
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(dequantize(weight), (std::vector<float>{-4, -0.5f, 0, 3.5f, 0.75f, 1.5f, 2.25f, 3}));
  EXPECT_EQ(weight.activation, (ActivationQuant{.mode = Mode::kDynamic, .group = -1}));

  MemoryCheckpoint wide(config);
  wide.add("layer.weight", DType::kI8, {2, 4}, std::vector<int8_t>{-8, -1, 8, 7, 1, 2, 3, 4});
  add_floats(wide, "layer.weight_scale", {2, 1});
  EXPECT_THAT(load_error(wide),
              HasSubstr("tensor 'layer.weight' holds 8 at element 2, which 4 bits can't be"));
}

TEST(CompressedTensors, AsymmetricIntegersAndStaticInputs) {
  json weights = int_args(8, "channel", 0), input = int_args(8, "tensor", 0);
  weights["symmetric"] = input["symmetric"] = false;
  MemoryCheckpoint checkpoint(compressed_config(weights, input, {{"format", "int-quantized"}}));
  checkpoint.add("layer.weight", DType::kI8, {2, 2}, std::vector<int8_t>{-128, 127, 5, 6});
  checkpoint.add("layer.weight_zero_point", DType::kI8, {2, 1}, std::vector<int8_t>{-128, 4});
  checkpoint.add("layer.input_zero_point", DType::kI8, {1}, std::vector<int8_t>{-3});
  add_floats(checkpoint, "layer.weight_scale", {2, 1});
  add_floats(checkpoint, "layer.input_scale", {1}, 0.125f);
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(dequantize(weight), (std::vector<float>{0, 127.5f, 0.75f, 1.5f}));
  EXPECT_EQ(
      weight.activation,
      (ActivationQuant{.mode = Mode::kStatic, .sym = false, .static_scale = 0.125f, .static_zero = -3}));
  const Recipe recipe{.scheme = scheme_from_json(kCompressedTensorsFormat.plan(checkpoint, "layer").scheme)};
  expect_same_tensors(kCompressedTensorsFormat.pack(weight, "layer", recipe), checkpoint);
}

std::unique_ptr<MemoryCheckpoint> two_level_checkpoint(float weight_divisor, float input_divisor) {
  auto checkpoint = std::make_unique<MemoryCheckpoint>(compressed_config(
      float_args(4, "tensor_group", 16), float_args(4, "tensor_group", 16, {{"dynamic", "local"}}),
      {{"format", "nvfp4-pack-quantized"}}));
  checkpoint->add("layer.weight_packed", DType::kU8, {2, 8}, counted_bytes(16, 256));
  checkpoint->add("layer.weight_scale", DType::kF8E4M3, {2, 1}, std::vector<uint8_t>{0x38, 0x40});
  add_floats(*checkpoint, "layer.weight_global_scale", {1}, weight_divisor);
  add_floats(*checkpoint, "layer.input_global_scale", {1}, input_divisor);
  return checkpoint;
}

// The largest value 4 is stored as 2688 / 4 = 672, a divisor.
TEST(CompressedTensors, GlobalScalesDivide) {
  const QuantWeight weight = load(*two_level_checkpoint(672, 1344), "layer");
  const std::vector<float> values = dequantize(weight);
  EXPECT_EQ(values[2], 0.5f * (e4m3fn_to_float(0x38) / 672.0f));    // byte 1, low half: code 1
  EXPECT_EQ(values[31], 0.0f);                                      // byte 15, high half: code 0
  EXPECT_EQ(values[30], -6.0f * (e4m3fn_to_float(0x40) / 672.0f));  // low half: code 15
  EXPECT_EQ(weight.activation.super_divisor, 1344);
  EXPECT_EQ(weight.activation.super_scale, 1.0f / 1344);
  EXPECT_EQ(weight.activation.group, 16);
  EXPECT_EQ(weight.activation.scale, ScaleCodec::kE4M3FN);
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(load_error(*two_level_checkpoint(bad, 1)), HasSubstr("'layer.weight_global_scale' holds"));
    EXPECT_THAT(load_error(*two_level_checkpoint(1, bad)), HasSubstr("'layer.input_global_scale' holds"));
  }
}

json three_groups() {
  return compressed_config(int_args(4), nullptr,
                           {{"ignore", {"lm_head", "re:.*gate$", "nowhere"}},
                            {"config_groups",
                             {{"group_0", {{"targets", {"Linear", "Embedding"}}, {"weights", int_args(4)}}},
                              {"group_1", {{"targets", {"re:.*down"}}, {"weights", int_args(8)}}},
                              {"group_2", {{"targets", {"a.down"}}, {"weights", int_args(2)}}}}}});
}

// A name beats an expression, an expression beats a class.
TEST(CompressedTensors, TargetsHaveRanks) {
  MemoryCheckpoint checkpoint(three_groups());
  const std::pair<const char*, int> layers[] = {{"a.down", 2}, {"b.down", 8}, {"a.up", 4}};
  for (const auto& [layer, bits] : layers) {
    checkpoint.add(cat(layer, ".weight_packed"), DType::kI32, {1, bits},
                   std::vector<int32_t>(static_cast<size_t>(bits), 9));
    add_floats(checkpoint, cat(layer, ".weight_scale"), {1, 1});
  }
  checkpoint.add("lm_head.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  for (const auto& [layer, bits] : layers)
    EXPECT_EQ(load(checkpoint, layer).element, integer_element(bits)) << layer;
  EXPECT_TRUE(kCompressedTensorsFormat.plan(checkpoint, "lm_head").tensors.empty());
  EXPECT_EQ(kCompressedTensorsFormat.unmatched_rules(checkpoint),
            (std::vector<std::string>{"Embedding", "re:.*gate$", "nowhere"}));
}

TEST(CompressedTensors, AQuantizedLayerThatNothingTargetsIsAnError) {
  json config = compressed_config(int_args(4));
  config["quantization_config"]["config_groups"]["group_0"]["targets"] = {"re:other"};
  MemoryCheckpoint checkpoint(config);
  add_words(checkpoint, 4, 64, 4, false);
  add_floats(checkpoint, "layer.weight_scale", {4, 2});
  EXPECT_EQ(
      load_error(checkpoint),
      "memory/model.safetensors: tensor 'layer.weight_packed' is quantized, but nothing in the quantization "
      "settings is meant for it");
}

std::string config_refusal(const json& config) {
  MemoryCheckpoint checkpoint(config);
  return error_of([&] { detect_format(checkpoint); });
}

TEST(CompressedTensors, KeysThatChangeTheMeaningAreRefused) {
  const auto with = [](json more) {
    return config_refusal(compressed_config(int_args(4), nullptr, std::move(more)));
  };
  EXPECT_EQ(with({{"transform_config", {{"config_groups", 1}}}})
                .find("memory/config.json: key 'transform_config' is set"),
            0u);
  EXPECT_THAT(with({{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}),
              HasSubstr("key 'sparsity_config' is set"));
  EXPECT_EQ(with({{"sparsity_config", {{"format", "dense"}}}, {"transform_config", json::object()}}), "");
  EXPECT_THAT(with({{"format", "marlin-24"}}),
              HasSubstr("config_groups 'group_0' weights: format 'marlin-24' is not supported"));
  EXPECT_THAT(with({{"kv_cache_scheme", int_args(8, "tensor", 0)}}),
              HasSubstr("kv_cache_scheme: 8-bit int is not supported for the cache"));
  json outputs = compressed_config(int_args(4));
  outputs["quantization_config"]["config_groups"]["group_0"]["output_activations"] = int_args(8, "tensor", 0);
  EXPECT_THAT(config_refusal(outputs), HasSubstr("key 'output_activations' is set"));
}

TEST(CompressedTensors, ArgumentsThatAreNotSupportedAreNamed) {
  const std::pair<json, const char*> weights[] = {
      {nullptr, "has no 'weights'"},
      {dynamic(int_args(4)), "dynamic weights are not supported"},
      {int_args(9), "9-bit integers are not supported"},
      {float_args(6, "group", 32), "6-bit floats are not supported"},
      {float_args(4, "channel"), "strategy 'channel' is not supported"},
      {float_args(8, "attn_head"), "strategy 'attn_head'"},
      {float_args(8, "block"), "block_structure null"},
      {float_args(8, "block", 0, {{"block_structure", "128x"}}), "block_structure \"128x\""},
      {float_args(8, "group"), "strategy 'group' needs a group_size, got 0"}};
  for (const auto& [args, message] : weights)
    EXPECT_THAT(config_refusal(compressed_config(args)), HasSubstr(message));
  EXPECT_EQ(config_refusal(compressed_config(float_args(8, "block", 0, {{"block_structure", "128x64"}}))),
            "");
  EXPECT_THAT(config_refusal(compressed_config(int_args(4), int_args(8, "channel", 0))),
              HasSubstr("static activations by 'channel' are not supported"));
  EXPECT_THAT(config_refusal(compressed_config(int_args(4), dynamic(int_args(4, "token", 0)))),
              HasSubstr("4-bit int activations are not supported"));
}

TEST(CompressedTensors, BrokenPacksAreRefused) {
  const auto broken = [](const std::function<void(MemoryCheckpoint&)>& fill) {
    MemoryCheckpoint checkpoint(compressed_config(int_args(4)));
    add_floats(checkpoint, "layer.weight_scale", {4, 2});
    fill(checkpoint);
    return load_error(checkpoint);
  };
  const std::vector<int32_t> words(32);
  const auto add_shape = [](MemoryCheckpoint& c, int64_t out, int64_t in) {
    c.add("layer.weight_shape", DType::kI64, {2}, std::vector<int64_t>{out, in});
  };
  EXPECT_THAT(broken([&](auto& c) {
                c.add("layer.weight_packed", DType::kI64, {4, 8}, std::vector<int64_t>(32));
              }),
              HasSubstr("'layer.weight_packed' has dtype i64, expected i32"));
  EXPECT_THAT(broken([&](auto& c) {
                c.add("layer.weight_packed", DType::kI32, {2, 16}, words);
              }),
              HasSubstr("'layer.weight_scale' has shape [4, 2], expected [2, 4]"));
  EXPECT_THAT(
      broken([&](auto& c) {
        c.add("layer.weight_packed", DType::kI32, {4, 7}, std::vector<int32_t>(28));
        add_shape(c, 4, 64);
      }),
      HasSubstr("'layer.weight_shape' says [4, 64], but 'layer.weight_packed' has shape [4, 7] at 4 bits"));
  for (const int64_t in : {int64_t{-1}, int64_t{0}, int64_t{1} << 62, std::numeric_limits<int64_t>::max()})
    EXPECT_THAT(broken([&](auto& c) {
                  c.add("layer.weight_packed", DType::kI32, {4, 8}, words);
                  add_shape(c, 4, in);
                }),
                HasSubstr(cat("'layer.weight_shape' says [4, ", in, "]")));
  EXPECT_THAT(broken([&](auto& c) {
                c.add("layer.weight_packed", DType::kI32, {4, 8}, words);
                c.add("layer.weight_zero_point", DType::kI32, {1, 2}, std::vector<int32_t>{0x8888, 0x8887});
              }),
              HasSubstr("'layer.weight_zero_point' holds zero points other than 0"));
  EXPECT_THAT(broken([&](auto& c) {
                c.add("layer.weight_packed", DType::kI32, {4, 8}, words);
                c.add("layer.weight", DType::kF32, {4, 64}, std::vector<float>(256));
              }),
              HasSubstr("'layer.weight_packed' stands beside 'layer.weight'"));
}

}  // namespace
}  // namespace quaver
