// Model Optimizer's algorithms of which there is no file of the tool: bytes by hand, values by the
// definition.
#include "format_checks.h"
#include "formats/modelopt.h"
#include "memory_checkpoint.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

json algorithm_settings(const char* algorithm, int group_size) {
  json quantization = {{"quant_method", "modelopt"}, {"quant_algo", algorithm}};
  if (group_size > 0) quantization["group_size"] = group_size;
  return {{"quantization_config", std::move(quantization)}};
}

// Two rows of `group` e2m1 codes that count up, low nibble first; scales 0.5 and 2, second level 0.25.
std::vector<uint8_t> counting_codes(int group) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < group; ++i)
    bytes.push_back(static_cast<uint8_t>(((2 * i) & 15) | ((2 * i + 1) & 15) << 4));
  return bytes;
}
MemoryCheckpoint& add_float4(MemoryCheckpoint& checkpoint, int group) {
  checkpoint.add("x.weight", DType::kU8, {2, group / 2}, counting_codes(group));
  checkpoint.add("x.weight_scale", DType::kF8E4M3, {2, 1}, std::vector<uint8_t>{0x30, 0x40});
  return checkpoint.add("x.weight_scale_2", DType::kF32, {}, std::vector<float>{0.25f});
}

std::vector<float> counting_values(int group) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<float> values;
  for (int i = 0; i < 2 * group; ++i)
    values.push_back((i & 8 ? -1.0f : 1.0f) * kMagnitudes[i & 7] * (i < group ? 0.5f : 2.0f) * 0.25f);
  return values;
}

TEST(ModelOptByHand, NVFP4AwqMultipliesItsInput) {
  MemoryCheckpoint checkpoint(algorithm_settings("NVFP4_AWQ", 16));
  add_float4(checkpoint, 16).add("x.input_scale", DType::kF32, {}, std::vector<float>{0.125f});
  std::vector<uint16_t> multipliers(16, 0x3f80);
  multipliers[3] = 0x4000;  // 2
  checkpoint.add("x.pre_quant_scale", DType::kBF16, {16}, multipliers);
  QuantWeight weight = load(checkpoint, "x");
  ASSERT_EQ(weight.input_multiplier.size(), 16u);
  EXPECT_EQ(weight.input_multiplier[3], 2);
  std::vector<float> folded = counting_values(16);
  folded[3] *= 2;
  folded[19] *= 2;
  EXPECT_EQ(dequantize(weight), folded);
  weight.input_multiplier.clear();
  EXPECT_EQ(dequantize(weight), counting_values(16));
  EXPECT_EQ(weight.activation, (ActivationQuant{.mode = Mode::kDynamic,
                                                .element = Element::kE2M1,
                                                .group = 16,
                                                .scale = ScaleCodec::kE4M3FN,
                                                .super_scale = 0.125f}));
}

TEST(ModelOptByHand, W4A16NVFP4LeavesItsInput) {
  MemoryCheckpoint checkpoint(algorithm_settings("W4A16_NVFP4", 16));
  const QuantWeight weight = load(add_float4(checkpoint, 16), "x");
  EXPECT_EQ(dequantize(weight), counting_values(16));
  EXPECT_EQ(weight.activation, ActivationQuant{});
  checkpoint.add("x.input_scale", DType::kF32, {}, std::vector<float>{0.125f});
  EXPECT_NE(error_of([&] { load(checkpoint, "x"); }).find("x.input_scale"), std::string::npos);
}

TEST(ModelOptByHand, W4A8NVFP4HasGroupsOf32AndAFloat8Input) {
  MemoryCheckpoint checkpoint(algorithm_settings("W4A8_NVFP4_FP8", 32));
  add_float4(checkpoint, 32).add("x.input_scale", DType::kF32, {}, std::vector<float>{0.125f});
  const QuantWeight weight = load(checkpoint, "x");
  EXPECT_EQ(weight.group, (Extent2d{1, 32}));
  EXPECT_EQ(dequantize(weight), counting_values(32));
  EXPECT_EQ(weight.activation,
            (ActivationQuant{.mode = Mode::kStatic, .element = Element::kE4M3FN, .static_scale = 0.125f}));
  checkpoint.remove("x.input_scale");
  EXPECT_NE(error_of([&] { load(checkpoint, "x"); }).find("x.input_scale"), std::string::npos);
}

TEST(ModelOptByHand, W8A16IsSignedBytesTimesRowScales) {
  MemoryCheckpoint checkpoint(algorithm_settings("W8A16", 0));
  checkpoint.add("x.weight", DType::kI8, {2, 4}, std::vector<int8_t>{-128, -1, 0, 127, 1, 2, 3, -4});
  checkpoint.add("x.weight_scale", DType::kF32, {2}, std::vector<float>{0.5f, 3});
  const QuantWeight weight = load(checkpoint, "x");
  EXPECT_EQ(dequantize(weight), (std::vector<float>{-64, -0.5f, 0, 63.5f, 3, 6, 9, -12}));
  EXPECT_EQ(weight.activation, ActivationQuant{});
}

}  // namespace
}  // namespace quaver
