// bitsandbytes' files: values, blocks that cross rows, and what is refused.
#include "formats/bitsandbytes.h"

#include "numerics/fp4.h"
#include "numerics/nf4.h"
#include "tool_fixture.h"

namespace quaver {
namespace {

constexpr const char* kNF4 = "bitsandbytes-nf4-double";
constexpr const char* kInt8 = "bitsandbytes-int8";

TEST(BitsAndBytes, FourBitsAreThoseOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(tool_folder(kNF4));
  ASSERT_STREQ(detect_format(*checkpoint)->name, "bitsandbytes");
  expect_tool_weights(*checkpoint, kNF4);
  expect_all_tensors_used(*checkpoint);
  EXPECT_EQ(load(*checkpoint, kQ).activation, ActivationQuant{});
}

// The tool multiplies code, SCB and 1/127 from left to right and rounds twice; here the two scales are
// multiplied first. Each rounding is half a unit of 2^-23 at most.
TEST(BitsAndBytes, EightBitsAreThoseOfTheTool) {
  const auto checkpoint = open_hugging_face_folder(tool_folder(kInt8));
  ASSERT_STREQ(detect_format(*checkpoint)->name, "bitsandbytes");
  expect_tool_weights(*checkpoint, kInt8, 2 * 0x1p-23f);
  expect_all_tensors_used(*checkpoint);
  EXPECT_EQ(load(*checkpoint, kQ).activation, (ActivationQuant{.mode = ActivationQuant::Mode::kDynamic,
                                                               .element = Element::kInt8,
                                                               .group = -1,
                                                               .narrow = true,
                                                               .outlier_threshold = 6.0f}));
}

// A 4-bit layer made from codes by the rules themselves.
struct FlatLayer {
  int64_t rows, cols, block = 64;
  bool nf4 = true;
  std::vector<uint8_t> codes;
  std::vector<float> runs;

  FlatLayer(int64_t n, int64_t k, bool is_nf4) : rows(n), cols(k), nf4(is_nf4) {
    for (int64_t i = 0; i < n * k; ++i) codes.push_back(static_cast<uint8_t>(i * 7 % 16));
    for (int64_t i = 0; i * block < n * k; ++i) runs.push_back(0.25f * static_cast<float>(i % 9 + 1));
  }

  float value(size_t i) const {
    const float code = nf4 ? nf4_to_float(codes[i]) : fp4_to_float(codes[i]);
    return code * runs[i / static_cast<size_t>(block)];
  }

  json state() const {
    return {{"quant_type", nf4 ? "nf4" : "fp4"},
            {"blocksize", block},
            {"dtype", "bfloat16"},
            {"shape", {rows, cols}}};
  }

  void add_to(MemoryCheckpoint& checkpoint, DType storage = DType::kU8) const {
    std::vector<uint8_t> bytes((codes.size() + 1) / 2);
    for (size_t i = 0; i < codes.size(); ++i)
      bytes[i / 2] |= static_cast<uint8_t>(codes[i] << (i % 2 ? 0 : 4));
    const auto elements = static_cast<int64_t>(bytes.size()) / dtype_info(storage).block_bytes;
    checkpoint.add("x.weight", {storage, {elements, 1}, Buffer::copy_of(bytes)});
    checkpoint.add("x.weight.absmax", DType::kF32, {static_cast<int64_t>(runs.size())}, runs);
    std::vector<float> map;
    for (uint8_t c = 0; c < 16; ++c) map.push_back(nf4 ? nf4_to_float(c) : fp4_to_float(c));
    checkpoint.add("x.weight.quant_map", DType::kF32, {16}, map);
    add_state(checkpoint, state().dump());
  }

  void add_state(MemoryCheckpoint& checkpoint, const std::string& text) const {
    checkpoint.add(cat("x.weight.quant_state.bitsandbytes__", nf4 ? "nf4" : "fp4"), DType::kU8,
                   {static_cast<int64_t>(text.size())}, std::vector<char>(text.begin(), text.end()));
  }
};

json four_bit_settings(const char* type) {
  return {{"quantization_config",
           {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", type}}}};
}

TEST(BitsAndBytes, RunsThatCrossRowsRead) {
  for (const bool nf4 : {true, false})
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{8, 128}, {6, 100}, {4, 48}, {5, 33}, {3, 320}}) {
      const FlatLayer layer(rows, cols, nf4);
      MemoryCheckpoint checkpoint(four_bit_settings(nf4 ? "nf4" : "fp4"));
      layer.add_to(checkpoint);
      const QuantWeight weight = load(checkpoint, "x", {rows, cols});
      const std::vector<float> values = dequantize(weight);
      ASSERT_EQ(values.size(), layer.codes.size());
      for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], layer.value(i)) << cols << " " << i;
    }
}

TEST(BitsAndBytes, OtherStorageHoldsTheSameBytes) {
  const FlatLayer layer(8, 128, true);
  MemoryCheckpoint checkpoint(four_bit_settings("nf4"));
  layer.add_to(checkpoint, DType::kBF16);
  EXPECT_EQ(dequantize(load(checkpoint, "x"))[77], layer.value(77));
}

// Dividing by the run's greatest magnitude made codes of no meaning.
TEST(BitsAndBytes, RunsOfZerosAreZero) {
  FlatLayer layer(2, 64, true);
  layer.runs[1] = 0;
  MemoryCheckpoint checkpoint(four_bit_settings("nf4"));
  layer.add_to(checkpoint);
  const std::vector<float> values = dequantize(load(checkpoint, "x"));
  for (size_t k = 64; k < 128; ++k) EXPECT_EQ(values[k], 0.0f);
  EXPECT_EQ(values[3], layer.value(3));
}

std::string broken(const std::function<void(const FlatLayer&, MemoryCheckpoint&)>& change,
                   const char* type = "nf4") {
  const FlatLayer layer(8, 128, true);
  MemoryCheckpoint checkpoint(four_bit_settings(type));
  layer.add_to(checkpoint);
  change(layer, checkpoint);
  return error_of([&] { load(checkpoint, "x"); });
}

std::string with_state(const std::string& text) {
  return broken([&](const FlatLayer& layer, MemoryCheckpoint& c) { layer.add_state(c, text); });
}

TEST(BitsAndBytesRefusal, StatesThatLie) {
  const std::string begin = "memory/model.safetensors: tensor 'x.weight.quant_state.bitsandbytes__nf4'";
  json state = FlatLayer(8, 128, true).state();
  const auto with = [&](const char* key, json value) {
    json changed = state;
    changed[key] = std::move(value);
    return with_state(changed.dump());
  };
  EXPECT_EQ(with("quant_type", "fp4"), begin + ": key 'quant_type' is 'fp4', expected that of its name");
  EXPECT_EQ(with("blocksize", 0), begin + ": key 'blocksize' is 0, expected a size");
  EXPECT_EQ(with("shape", {8}), begin + ": key 'shape' is [8], expected two extents");
  EXPECT_EQ(with("shape", {-8, -128}), begin + " holds [-8, -128], which is no matrix");
  EXPECT_EQ(with("shape", {8, 64}),
            "memory/model.safetensors: tensor 'x.weight' has 512 bytes, expected 256");
  EXPECT_EQ(with("blocksize", 32),
            "memory/model.safetensors: tensor 'x.weight.absmax' has shape [16], expected 32 entries");
  EXPECT_EQ(with_state("{").find(begin), 0u);
  EXPECT_EQ(with_state("[]"), begin + " must hold an object");
  EXPECT_EQ(with_state(std::string(5000, ' ')).find(begin), 0u);
}

TEST(BitsAndBytesRefusal, TensorsThatAreBroken) {
  const std::string begin = "memory/model.safetensors: ";
  EXPECT_EQ(
      broken([](const FlatLayer&, MemoryCheckpoint& c) { c.remove("x.weight.absmax"); }),
      "memory: tensor 'x.weight.absmax' is missing although 'x.weight.quant_state.bitsandbytes__nf4' stands "
      "there");
  EXPECT_EQ(broken([](const FlatLayer&, MemoryCheckpoint& c) {
              c.add("x.weight.quant_map", DType::kF32, {16}, std::vector<float>(16, 1.0f));
            }),
            begin + "tensor 'x.weight.quant_map' holds 1 for code 0, expected -1, as nf4 has it");
  EXPECT_EQ(broken([](const FlatLayer&, MemoryCheckpoint& c) {
              c.add("x.weight.absmax", DType::kF32, {16}, std::vector<float>(16, NAN));
            }),
            begin + "layer 'x': entry 0 of 16 scales is not finite");
  EXPECT_EQ(broken([](const FlatLayer&, MemoryCheckpoint& c) {
              c.remove("x.weight.quant_state.bitsandbytes__nf4");
            }),
            begin + "tensor 'x.weight' has dtype u8, but neither a quant_state nor an SCB stands beside it");
  EXPECT_EQ(broken([](const FlatLayer&, MemoryCheckpoint&) {}, "fp4"),
            begin +
                "tensor 'x.weight.quant_state.bitsandbytes__nf4' describes a 4-bit layer, but "
                "memory/config.json asks for fp4");
}

TEST(BitsAndBytesRefusal, SettingsAndEightBits) {
  EXPECT_EQ(refusal_of(kInt8, [](json& s) { s["load_in_4bit"] = true; }),
            "memory/config.json: keys 'load_in_4bit' and 'load_in_8bit' are both true; expected one of them");
  EXPECT_EQ(refusal_of(kInt8, [](json& s) { s["llm_int8_has_fp16_weight"] = true; })
                .find("memory/config.json: key 'llm_int8_has_fp16_weight' is set"),
            0u);
  EXPECT_EQ(
      refusal_of(kInt8,
                 [](json& s) {
                   s["load_in_4bit"] = true;
                   s["load_in_8bit"] = false;
                 }),
      "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.SCB' belongs to an 8-bit layer, but "
      "memory/config.json asks for 4 bits");
  EXPECT_EQ(refusal_of(
                kInt8, [](json&) {},
                [](MemoryCheckpoint& c) {
                  c.add(cat(kQ, ".weight_format"), DType::kU8, {}, std::vector<uint8_t>{2});
                }),
            "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight_format' is not 0, "
            "which means "
            "plain rows and is the one that is supported");
  EXPECT_EQ(
      refusal_of(
          kInt8, [](json&) {},
          [](MemoryCheckpoint& c) {
            c.add(cat(kQ, ".SCB"), DType::kF32, {127}, std::vector<float>(127, 1.0f));
          }),
      "memory/model.safetensors: tensor 'model.layers.0.self_attn.q_proj.SCB' has shape [127], expected "
      "[128, 1]");
}

TEST(BitsAndBytes, SkippedModulesThatFitNothingAreNamed) {
  const auto real = open_hugging_face_folder(tool_folder(kNF4));
  const FixtureCopy copy(*real, [](json& config) {
    config.at("quantization_config")["llm_int8_skip_modules"] = {"self_attn", "vision"};
  });
  EXPECT_EQ(kBitsAndBytesFormat.unmatched_rules(copy), std::vector<std::string>{"vision"});
}

}  // namespace
}  // namespace quaver
