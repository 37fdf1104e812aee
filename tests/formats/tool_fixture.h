// Folders that a vendor's tool wrote, trimmed, with the weights as that tool dequantizes them.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "base/mapped_file.h"
#include "format_checks.h"

namespace quaver {

inline std::string tool_folder(std::string_view name) {
  return cat(QUAVER_TEST_DATA, "/fixtures/checkpoints/", name);
}

// Of the bytes, with -0 counted as 0.
inline uint64_t hash_of(std::span<const float> values) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
    for (int byte = 0; byte < 4; ++byte) hash = (hash ^ (bits >> (byte * 8) & 0xff)) * 0x100000001B3u;
  }
  return hash;
}

// The weight as stored: the tools' figures leave input multipliers out.
inline std::vector<float> stored_values(const Checkpoint& checkpoint, std::string_view layer) {
  QuantWeight weight = load(checkpoint, layer);
  weight.input_multiplier.clear();
  return dequantize(weight);
}

struct ToolWeight {
  std::string layer;
  size_t rows;  // that the tool's hash covers
  uint64_t hash;
  std::vector<float> first_rows;
};

inline std::vector<ToolWeight> tool_weights(std::string_view folder) {
  const json facts = read_json_file(tool_folder(folder) + "/weights.json");
  const std::string text = read_text_file(tool_folder(folder) + "/expected.safetensors", 1 << 20);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), 8);
  const json header = parse_json(std::string_view(text).substr(8, header_bytes), "expected.safetensors");
  std::vector<ToolWeight> weights;
  for (const auto& [name, fact] : facts.items()) {
    const auto offsets = header.at(name).at("data_offsets").get<std::array<size_t, 2>>();
    ToolWeight weight{name.substr(0, name.size() - 7), fact.at("rows"),
                      std::stoull(fact.at("fnv1a").get<std::string>(), nullptr, 16),
                      std::vector<float>((offsets[1] - offsets[0]) / 4)};
    std::memcpy(weight.first_rows.data(), text.data() + 8 + header_bytes + offsets[0],
                offsets[1] - offsets[0]);
    weights.push_back(std::move(weight));
  }
  return weights;
}

// Bit for bit, or, where `tolerance` is set, within that share of each value: the reason belongs to the
// caller.
inline void expect_tool_weights(const Checkpoint& checkpoint, std::string_view folder, float tolerance = 0) {
  const std::vector<ToolWeight> weights = tool_weights(folder);
  ASSERT_GE(weights.size(), 2u);
  for (const ToolWeight& wanted : weights) {
    const std::vector<float> values = stored_values(checkpoint, wanted.layer);
    const size_t columns = static_cast<size_t>(load(checkpoint, wanted.layer).shape.cols);
    if (tolerance == 0) {
      EXPECT_EQ(hash_of(std::span(values).first(wanted.rows * columns)), wanted.hash) << wanted.layer;
    }
    for (size_t i = 0; i < wanted.first_rows.size(); ++i)
      ASSERT_NEAR(values[i], wanted.first_rows[i], tolerance * std::fabs(wanted.first_rows[i]))
          << wanted.layer << " element " << i;
  }
}

// Every tensor belongs to one quantized layer, to a cache, or is a plain float.
inline void expect_all_tensors_used(const Checkpoint& checkpoint) {
  const Format* format = detect_format(checkpoint);
  std::multiset<std::string> used;
  for (const std::string& layer : quantized_layers(checkpoint, *format)) {
    const LayerPlan plan = format->plan(checkpoint, layer);
    used.insert(plan.tensors.begin(), plan.tensors.end());
    used.insert(plan.dropped.begin(), plan.dropped.end());
  }
  if (format->kv_cache && format->kv_cache(checkpoint)) {
    const KvScales scales = read_kv_scales(checkpoint, "model.layers.0.self_attn");
    EXPECT_EQ(scales.k.size(), 1u);
    EXPECT_EQ(scales.v.size(), 1u);
    used.insert(scales.tensors.begin(), scales.tensors.end());
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const bool plain = tensor.dtype == DType::kBF16 && used.count(tensor.name) == 0 &&
                       (tensor.name.ends_with(".weight") || tensor.name.ends_with(".bias"));
    EXPECT_TRUE(plain || used.count(tensor.name) == 1) << tensor.name;
  }
}

// The same tensors and config in memory, to be changed.
class FixtureCopy : public MemoryCheckpoint {
 public:
  using Edit = std::function<void(json&)>;
  explicit FixtureCopy(
      const Checkpoint& original, const Edit& edit = [](json&) {})
      : MemoryCheckpoint(edited(original.config(), edit)) {
    for (const TensorInfo& tensor : original.tensors()) add(tensor.name, original.read(tensor.name));
    for (const TensorInfo& tensor : original.tensors()) {
      const std::string owner = cat(tensor.name.substr(0, tensor.name.rfind('.')), ".weight");
      if (std::string text = original.metadata(owner); !text.empty()) add_metadata(owner, std::move(text));
    }
  }

 private:
  static json edited(json config, const Edit& edit) {
    edit(config);
    return config;
  }
};

// The message with which a changed copy of a fixture is refused: `edit` changes its "quantization_config",
// `change` its tensors; then all of `layers` are read.
inline std::string refusal_of(
    std::string_view folder, const std::vector<std::string>& layers, const FixtureCopy::Edit& edit,
    const std::function<void(MemoryCheckpoint&)>& change = [](MemoryCheckpoint&) {}) {
  const auto real = open_hugging_face_folder(tool_folder(folder));
  FixtureCopy copy(*real, [&](json& config) { edit(config.at("quantization_config")); });
  change(copy);
  return error_of([&] {
    for (const std::string& layer : layers) load(copy, layer);
  });
}

// A layer of attention and one of the feed-forward part that every fixture quantizes.
inline constexpr const char* kQ = "model.layers.0.self_attn.q_proj";
inline constexpr const char* kDown = "model.layers.0.mlp.down_proj";

inline std::string refusal_of(
    std::string_view folder, const FixtureCopy::Edit& edit,
    const std::function<void(MemoryCheckpoint&)>& change = [](MemoryCheckpoint&) {}) {
  return refusal_of(folder, {kQ, kDown}, edit, change);
}

inline QuantWeight load_from(std::string_view folder, std::string_view layer) {
  return load(*open_hugging_face_folder(tool_folder(folder)), layer);
}

}  // namespace quaver
