// Scales of the key and value cache, under the names that tools give them.
#include "formats/kv_cache.h"

#include "scaled_fixture.h"

namespace quaver {
namespace {

using testing::HasSubstr;

TEST(KvCache, EveryNameIsRead) {
  const std::pair<const char*, const char*> names[] = {
      {"attn.k_scale", "attn.v_scale"},
      {"attn.k_proj.k_scale", "attn.v_proj.v_scale"},
      {"attn.k_proj.output_scale", "attn.v_proj.output_scale"}};
  for (const auto& [k, v] : names) {
    MemoryCheckpoint checkpoint(json::object());
    add_floats(checkpoint, k, {1}, 0.5f);
    add_floats(checkpoint, v, {}, 2.0f);
    const KvScales scales = read_kv_scales(checkpoint, "attn");
    EXPECT_EQ(scales.k, std::vector<float>{0.5f});
    EXPECT_EQ(scales.v, std::vector<float>{2.0f});
    EXPECT_EQ(scales.tensors, (std::vector<std::string>{k, v}));
  }
}

TEST(KvCache, OneScaleForBothAndNone) {
  MemoryCheckpoint checkpoint(json::object());
  add_floats(checkpoint, "attn.kv_scale", {1}, 0.5f);
  EXPECT_EQ(read_kv_scales(checkpoint, "attn").k, std::vector<float>{0.5f});
  EXPECT_EQ(read_kv_scales(checkpoint, "attn").v, std::vector<float>{0.5f});
  EXPECT_TRUE(read_kv_scales(checkpoint, "other").tensors.empty());
}

TEST(KvCache, ScalesOfHeads) {
  MemoryCheckpoint checkpoint(json::object());
  add_floats(checkpoint, "attn.k_scale", {2, 1, 1});
  add_floats(checkpoint, "attn.v_scale", {2, 1, 1});
  EXPECT_EQ(read_kv_scales(checkpoint, "attn").k, (std::vector<float>{0.5f, 0.75f}));
}

TEST(KvCache, HalvesAndBadScalesAreRefused) {
  MemoryCheckpoint half(json::object());
  add_floats(half, "attn.k_scale", {1});
  EXPECT_EQ(error_of([&] { read_kv_scales(half, "attn"); }),
            "memory: layer 'attn' has 1 scales for its keys and 0 for its values");
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    MemoryCheckpoint checkpoint(json::object());
    add_floats(checkpoint, "attn.kv_scale", {1}, bad);
    EXPECT_THAT(error_of([&] { read_kv_scales(checkpoint, "attn"); }),
                HasSubstr("memory/model.safetensors: tensor 'attn.kv_scale' holds"));
  }
  MemoryCheckpoint twice(json::object());
  add_floats(twice, "attn.k_scale", {1});
  add_floats(twice, "attn.v_scale", {1});
  add_floats(twice, "attn.k_proj.k_scale", {1});
  EXPECT_THAT(error_of([&] { read_kv_scales(twice, "attn"); }),
              HasSubstr("'attn.k_proj.k_scale' repeats a scale"));
}

TEST(KvCache, FixtureOfATool) {
  const auto checkpoint =
      open_hugging_face_folder(cat(QUAVER_TEST_DATA, "/fixtures/checkpoints/ct-fp8-static-kv-fp8"));
  const auto quant = detect_format(*checkpoint)->kv_cache(*checkpoint);
  ASSERT_TRUE(quant.has_value());
  EXPECT_EQ(quant->element, Element::kE4M3FN);
  EXPECT_FALSE(quant->per_head || quant->dynamic);
  const KvScales scales = read_kv_scales(*checkpoint, "model.layers.0.self_attn");
  EXPECT_EQ(scales.tensors.size(), 2u);
  EXPECT_GT(scales.k.at(0), 0.0f);
  EXPECT_GT(scales.v.at(0), 0.0f);
}

}  // namespace
}  // namespace quaver
