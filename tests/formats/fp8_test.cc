// 8-bit float checkpoints: blocks, rows, whole tensors, static and dynamic inputs, and what doesn't fit.
#include "formats/fp8.h"

#include "numerics/e4m3fn.h"
#include "numerics/e4m3fnuz.h"
#include "numerics/e5m2.h"
#include "scaled_fixture.h"

namespace quaver {
namespace {

using testing::HasSubstr;
using Mode = ActivationQuant::Mode;

TEST(Fp8, PartialBlocksAtBothEdges) {
  MemoryCheckpoint checkpoint(fp8_config({{"weight_block_size", {4, 8}}}));
  add_float8(checkpoint, 6, 20);
  add_floats(checkpoint, "layer.weight_scale_inv", {2, 3});
  const QuantWeight weight = load(checkpoint, "layer", {6, 20});
  EXPECT_EQ(weight.group, (Extent2d{4, 8}));
  const std::vector<float> values = dequantize(weight);
  for (int64_t n = 0; n < 6; ++n)
    for (int64_t k = 0; k < 20; ++k) {
      const float scale = 0.5f + 0.25f * static_cast<float>(n / 4 * 3 + k / 8);
      const float code = e4m3fn_to_float(static_cast<uint8_t>((n * 20 + k) % 0x7e));
      EXPECT_EQ(values[static_cast<size_t>(n * 20 + k)], code * scale) << n << " " << k;
    }
  EXPECT_EQ(weight.activation.mode, Mode::kDynamic);
  EXPECT_EQ(weight.activation.group, 8);
  EXPECT_EQ(weight.activation.element, Element::kE4M3FN);
}

TEST(Fp8, ScalesOfRowsAndTensorsInAnyRank) {
  const std::pair<std::vector<int64_t>, Extent2d> cases[] = {
      {{}, {4, 8}}, {{1}, {4, 8}}, {{1, 1}, {4, 8}}, {{4}, {1, 8}}, {{4, 1}, {1, 8}}};
  for (const auto& [shape, group] : cases) {
    MemoryCheckpoint checkpoint(fp8_config());
    add_float8(checkpoint, 4, 8);
    add_floats(checkpoint, "layer.weight_scale", shape);
    const QuantWeight weight = load(checkpoint, "layer");
    EXPECT_EQ(weight.group, group);
    EXPECT_EQ(weight.activation.group, -1);
    EXPECT_EQ(dequantize(weight)[31], e4m3fn_to_float(31) * (group.rows == 1 ? 1.25f : 0.5f));
  }
}

// A scalar `weight_scale_inv` beside a static scale is how some models spell one scale for all.
TEST(Fp8, StaticInputScaleUnderItsNames) {
  for (const char* name : {"layer.input_scale", "layer.activation_scale"}) {
    MemoryCheckpoint checkpoint(
        fp8_config({{"activation_scheme", "static"}, {"weight_block_size", nullptr}}));
    add_float8(checkpoint, 4, 8);
    add_floats(checkpoint, "layer.weight_scale_inv", {});
    add_floats(checkpoint, name, {1}, 0.125f);
    const QuantWeight weight = load(checkpoint, "layer");
    EXPECT_EQ(weight.activation.mode, Mode::kStatic);
    EXPECT_EQ(weight.activation.static_scale, 0.125f);
    EXPECT_EQ(kFp8Format.plan(checkpoint, "layer").tensors.size(), 3u);
  }
}

TEST(Fp8, TheTensorSaysWhichFloat) {
  const std::tuple<DType, Element, float (*)(uint8_t)> cases[] = {
      {DType::kF8E5M2, Element::kE5M2, e5m2_to_float},
      {DType::kF8E4M3FNUZ, Element::kE4M3FNUZ, e4m3fnuz_to_float},
      {DType::kF8E4M3, Element::kE4M3FN, e4m3fn_to_float}};
  for (const auto& [type, element, decode] : cases) {
    MemoryCheckpoint checkpoint(fp8_config());
    add_float8(checkpoint, 4, 8, type);
    add_floats(checkpoint, "layer.weight_scale", {1});
    const QuantWeight weight = load(checkpoint, "layer");
    EXPECT_EQ(weight.element, element);
    EXPECT_EQ(dequantize(weight)[17], 0.5f * decode(17));
  }
}

TEST(Fp8, PowerOfTwoScales) {
  MemoryCheckpoint checkpoint(fp8_config({{"weight_block_size", {2, 4}}, {"scale_fmt", "ue8m0"}}));
  add_float8(checkpoint, 4, 8);
  checkpoint.add("layer.weight_scale_inv", DType::kF8E8M0, {2, 2}, std::vector<uint8_t>{126, 127, 128, 0});
  const QuantWeight weight = load(checkpoint, "layer");
  EXPECT_EQ(weight.scale.codec, ScaleCodec::kE8M0);
  EXPECT_EQ(weight.activation.scale, ScaleCodec::kE8M0);
  EXPECT_EQ(weight.activation.power_of_two, PowerOfTwo::kFit);
  EXPECT_EQ(decode_scales(weight.scale), (std::vector<float>{0.5f, 1, 2, 0x1p-127f}));
}

// A matrix that blocks don't divide stays plain and keeps a scale that nothing wrote.
TEST(Fp8, IdleScaleBesideAPlainWeightIsDropped) {
  MemoryCheckpoint checkpoint(fp8_config({{"weight_block_size", {4, 8}}}));
  checkpoint.add("layer.weight", DType::kBF16, {3, 5}, std::vector<uint16_t>(15));
  checkpoint.add("layer.weight_scale_inv", DType::kF32, {1, 1}, std::vector<float>{-1e38f});
  const LayerPlan plan = kFp8Format.plan(checkpoint, "layer");
  EXPECT_TRUE(plan.tensors.empty());
  EXPECT_EQ(plan.dropped, std::vector<std::string>{"layer.weight_scale_inv"});
}

TEST(Fp8, SkippedLayersArePlainAndMissingOnesReported) {
  MemoryCheckpoint checkpoint(fp8_config({{"modules_to_not_convert", {"lm_head", "visual"}}}));
  checkpoint.add("lm_head.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  EXPECT_TRUE(kFp8Format.plan(checkpoint, "lm_head").tensors.empty());
  EXPECT_EQ(kFp8Format.unmatched_rules(checkpoint), std::vector<std::string>{"visual"});
}

TEST(Fp8, SettingsThatAreNotSupportedAreNamed) {
  const auto refused = [](json more) {
    MemoryCheckpoint checkpoint(fp8_config(std::move(more)));
    return error_of([&] { detect_format(checkpoint); });
  };
  EXPECT_EQ(refused({{"activation_scheme", "lazy"}}),
            "memory/config.json: activation_scheme 'lazy' is not supported; 'dynamic' and 'static' are");
  EXPECT_EQ(refused({{"expert_dtype", "fp4"}}),
            "memory/config.json: expert_dtype 'fp4' is not supported; 'fp8' is");
  EXPECT_THAT(refused({{"fmt", "e3m4"}}), HasSubstr("fmt 'e3m4'"));
  EXPECT_THAT(refused({{"scale_fmt", "ue5m3"}}), HasSubstr("scale_fmt 'ue5m3'"));
  EXPECT_THAT(refused({{"weight_block_size", {128}}}), HasSubstr("weight_block_size [128]"));
  EXPECT_THAT(refused({{"weight_block_size", {128, 0}}}), HasSubstr("weight_block_size [128, 0]"));
  EXPECT_THAT(refused({{"weight_block_size", "128"}}), HasSubstr("'weight_block_size' has the wrong type"));
}

TEST(Fp8, DisagreementNamesTensorAndSetting) {
  MemoryCheckpoint checkpoint(fp8_config({{"weight_block_size", {4, 8}}}));
  add_float8(checkpoint, 8, 16);
  add_floats(checkpoint, "layer.weight_scale_inv", {2, 3});
  EXPECT_EQ(
      load_error(checkpoint),
      "memory/model.safetensors: tensor 'layer.weight_scale_inv' has shape [2, 3], expected [2, 2] for layer "
      "'layer' as e4m3fn in blocks of [4, 8] by 'weight_block_size' of the quantization settings");
}

TEST(Fp8, MissingAndUselessPartsAreNamed) {
  MemoryCheckpoint bare(fp8_config());
  add_float8(bare, 4, 8);
  EXPECT_THAT(load_error(bare), HasSubstr("tensor 'weight_scale' is missing beside 'layer.weight'"));

  MemoryCheckpoint lost(fp8_config({{"activation_scheme", "static"}}));
  add_float8(lost, 4, 8);
  add_floats(lost, "layer.weight_scale", {1});
  EXPECT_THAT(load_error(lost), HasSubstr("tensor 'input_scale' is missing beside 'layer.weight'"));

  MemoryCheckpoint useless(fp8_config());
  add_float8(useless, 4, 8);
  add_floats(useless, "layer.weight_scale", {1});
  add_floats(useless, "layer.input_scale", {1});
  EXPECT_THAT(load_error(useless), HasSubstr("tensor 'layer.input_scale' has no use"));

  MemoryCheckpoint twice(fp8_config());
  add_float8(twice, 4, 8);
  add_floats(twice, "layer.weight_scale", {1});
  add_floats(twice, "layer.weight_scale_inv", {1});
  EXPECT_THAT(load_error(twice),
              HasSubstr("tensor 'layer.weight_scale_inv' stands beside 'layer.weight_scale'"));

  MemoryCheckpoint orphan(fp8_config());
  add_floats(orphan, "layer.weight_scale", {1});
  EXPECT_THAT(load_error(orphan), HasSubstr("'layer.weight_scale' has no weight of layer 'layer' beside it"));
}

TEST(Fp8, ValuesThatAreNoNumbersAreRefused) {
  const auto with_scale = [](float scale) {
    MemoryCheckpoint checkpoint(fp8_config());
    add_float8(checkpoint, 4, 8);
    add_floats(checkpoint, "layer.weight_scale", {4}, scale, 0);
    return load_error(checkpoint);
  };
  EXPECT_EQ(
      with_scale(std::numeric_limits<float>::infinity()),
      "memory/model.safetensors: layer 'layer' (weight, weight_scale): entry 0 of 4 scales is not finite");
  EXPECT_THAT(with_scale(std::numeric_limits<float>::quiet_NaN()), HasSubstr("scales is not finite"));
  EXPECT_THAT(with_scale(0), HasSubstr("the scale of row 0, group 0 is zero but its codes are not"));

  MemoryCheckpoint bad_code(fp8_config());
  std::vector<uint8_t> codes(32);
  codes[19] = 0x7f;
  bad_code.add("layer.weight", DType::kF8E4M3, {4, 8}, codes);
  add_floats(bad_code, "layer.weight_scale", {1});
  EXPECT_THAT(load_error(bad_code), HasSubstr("the code of row 2, column 3 is not a finite number"));

  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    MemoryCheckpoint input(fp8_config({{"activation_scheme", "static"}}));
    add_float8(input, 4, 8);
    add_floats(input, "layer.weight_scale", {1});
    add_floats(input, "layer.input_scale", {1}, scale);
    EXPECT_THAT(load_error(input), HasSubstr("tensor 'layer.input_scale' holds"));
  }
  MemoryCheckpoint many(fp8_config({{"activation_scheme", "static"}}));
  add_float8(many, 4, 8);
  add_floats(many, "layer.weight_scale", {1});
  add_floats(many, "layer.input_scale", {8});
  EXPECT_THAT(load_error(many), HasSubstr("tensor 'layer.input_scale' has 8 entries, expected 1"));
}

TEST(Fp8, WrongDtypesAndShapesAreRefused) {
  MemoryCheckpoint bytes(fp8_config());
  bytes.add("layer.weight", DType::kU8, {4, 8}, std::vector<uint8_t>(32));
  add_floats(bytes, "layer.weight_scale", {1});
  EXPECT_THAT(load_error(bytes), HasSubstr("'layer.weight' has dtype u8, expected an 8-bit float"));

  MemoryCheckpoint half(fp8_config());
  add_float8(half, 4, 8);
  half.add("layer.weight_scale", DType::kI32, {1}, std::vector<int32_t>{1});
  EXPECT_THAT(load_error(half), HasSubstr("'layer.weight_scale' has dtype i32, expected f32, f16 or bf16"));

  MemoryCheckpoint flat(fp8_config());
  flat.add("layer.weight", DType::kF8E4M3, {32}, std::vector<uint8_t>(32));
  add_floats(flat, "layer.weight_scale", {1});
  EXPECT_THAT(load_error(flat), HasSubstr("'layer.weight' has shape [32], expected two dimensions"));

  MemoryCheckpoint other(fp8_config());
  add_float8(other, 4, 8);
  add_floats(other, "layer.weight_scale", {1});
  EXPECT_THAT(load_error(other, {8, 4}), HasSubstr("'layer.weight' holds [4, 8], expected [8, 4]"));
}

}  // namespace
}  // namespace quaver
