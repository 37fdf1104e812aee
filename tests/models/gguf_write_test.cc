// The tables of GGUF read backwards: names, arrangements, and the mixes of types that llama.cpp's quantizer
// makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "checkpoint/gguf_types.h"
#include "models/gguf_mix.h"
#include "models/gguf_names.h"
#include "models/gguf_rows.h"

namespace quaver::models {
namespace {

const std::string kGoldens = std::string(QUAVER_TEST_DATA) + "/golden/";

class GgufPlaceTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufPlaceTest, IsTheReverseOfReading) {
  const GgufFile file = GgufFile::open(kGoldens + "models/gguf/" + GetParam() + ".gguf");
  const GgufArchitecture& architecture = gguf_architecture(file);
  for (const GgufTensorSource& source : name_gguf_tensors(file)) {
    const auto place = gguf_place(architecture, source.name);
    ASSERT_TRUE(place.has_value()) << source.name;
    EXPECT_EQ(place->stored_name, source.stored_name);
    EXPECT_EQ(place->expert, source.expert);
    EXPECT_EQ(place->interleaved, source.interleaved_heads > 0) << source.name;
    EXPECT_EQ(place->plus_one, source.plus_one) << source.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GgufPlaceTest,
                         ::testing::Values("llama_q8", "llama3_tied", "qwen2_yarn", "qwen3", "qwen3moe",
                                           "gemma3"),
                         [](const auto& row) { return std::string(row.param); });

TEST(GgufPlaces, UnknownNamesHaveNone) {
  const GgufFile file = GgufFile::open(kGoldens + "models/gguf/qwen3moe.gguf");
  const GgufArchitecture& architecture = gguf_architecture(file);
  for (const char* name :
       {"", "model", "model.layers.0", "model.layers.0.weight", "model.layers.0.mlp.weight",
        "model.layers.0.mlp.experts.x.up_proj.weight", "model.layers.0.mlp.experts.-1.up_proj.weight",
        "model.layers.0.mlp.experts.1.weight", "model.layers.0.self_attn.q_proj.scale"})
    EXPECT_FALSE(gguf_place(architecture, name).has_value()) << name;
  EXPECT_EQ(gguf_place(architecture, "model.layers.3.mlp.experts.12.up_proj.weight")->expert, 12);
}

TEST(GgufRows, InterleaveAndPart) {
  const std::vector<uint8_t> rows = {0,  0,  1,  1,  2,  2,  3,  3,
                                     10, 10, 11, 11, 12, 12, 13, 13};  // 2 heads of 4 rows
  const Buffer out = interleaved_rows(Buffer::copy_of(rows), 2, 8);
  const std::vector<uint8_t> expected = {0, 0, 2, 2, 1, 1, 3, 3, 10, 10, 12, 12, 11, 11, 13, 13};
  EXPECT_TRUE(std::ranges::equal(out.as<uint8_t>(), expected));
  EXPECT_TRUE(std::ranges::equal(parted_rows(out, 2, 8).as<uint8_t>(), rows));
}

TEST(GgufMixTest, TypesAreThoseOfLlamaCpp) {
  const json cases = read_json_file(kGoldens + "checkpoint/gguf_mix.json");
  ASSERT_GE(cases.size(), 40u);
  size_t compared = 0;
  for (const json& model : cases) {
    const GgufMix* mix = find_gguf_mix(model.at("mix").get<std::string>());
    ASSERT_NE(mix, nullptr);
    const GgufModelFacts facts{.layers = model.at("layers"),
                               .heads = model.at("heads"),
                               .kv_heads = model.at("kv_heads"),
                               .experts = model.at("experts"),
                               .has_output = model.at("head")};
    for (const auto& [stem, tensor] : model.at("tensors").items()) {
      std::istringstream types(tensor.at("types").get<std::string>());
      std::string expected;
      const bool in_block = !stem.starts_with("output") && !stem.starts_with("token_embd");
      for (int64_t layer = 0; types >> expected; ++layer, ++compared) {
        const std::string name = in_block ? cat("blk.", layer, ".", stem) : stem;
        const GgufTypeChoice choice = choose_gguf_type(*mix, facts, name, tensor.at("shape"));
        ASSERT_EQ(gguf_tensor_type(choice.type)->name, expected)
            << model.at("name") << " " << mix->name << " " << name;
      }
    }
  }
  EXPECT_GT(compared, 1000u);
}

TEST(GgufMixTest, NamesInAnyCase) {
  EXPECT_EQ(find_gguf_mix("q4_k_m")->name, "Q4_K_M");
  EXPECT_EQ(find_gguf_mix("bf16")->file_type, 32u);
  EXPECT_EQ(find_gguf_mix("Q4_K"), nullptr);
  EXPECT_EQ(find_gguf_mix(""), nullptr);
}

}  // namespace
}  // namespace quaver::models
