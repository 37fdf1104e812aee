#include "models/gguf_mix.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/cat.h"
#include "checkpoint/gguf_types.h"

namespace quaver::models {
namespace {

constexpr std::array kMixes = {
    GgufMix{"Q4_0", 2, DType::kQ4_0},  GgufMix{"Q4_1", 3, DType::kQ4_1},
    GgufMix{"Q8_0", 7, DType::kQ8_0},  GgufMix{"Q4_K_M", 15, DType::kQ4_K, true},
    GgufMix{"Q6_K", 18, DType::kQ6_K}, GgufMix{"F16", 1, DType::kF16},
    GgufMix{"BF16", 32, DType::kBF16},
};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// "blk.7.attn_v.weight": 7 and "attn_v"; -1 outside the blocks.
struct StoredPlace {
  int64_t layer = -1;
  std::string_view stem;
};

StoredPlace place_of(std::string_view name) {
  StoredPlace place;
  const size_t last = name.rfind('.');
  place.stem = name.substr(0, last);
  if (!name.starts_with("blk.")) return place;
  std::from_chars(name.data() + 4, name.data() + name.size(), place.layer);
  place.stem = place.stem.substr(std::min(place.stem.find('.', 4), place.stem.size() - 1) + 1);
  return place;
}

bool deserves_more_bits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

DType wanted_type(const GgufMix& mix, const GgufModelFacts& model, std::string_view name, int64_t width) {
  constexpr int64_t kSharedValueLayers = 80;  // models of 70 billion weights share values among 8 heads
  constexpr int64_t kFewExperts = 8;
  const StoredPlace place = place_of(name);
  if (place.stem == "output" || (place.stem == "token_embd" && !model.has_output)) {
    const bool fills = width % dtype_info(mix.base).block_elements == 0;
    return fills && mix.base != DType::kQ8_0 ? DType::kQ6_K : DType::kQ8_0;
  }
  const bool more = mix.more_bits && deserves_more_bits(place.layer, model.layers);
  const bool few = model.experts == kFewExperts;
  if (place.stem == "attn_v") {
    if (few) return DType::kQ8_0;
    if (more) return DType::kQ6_K;
    const bool shared = model.layers == kSharedValueLayers && model.kv_heads < model.heads;
    return shared && mix.base == DType::kQ4_K ? DType::kQ5_K : mix.base;
  }
  if (place.stem == "attn_k" && few) return DType::kQ8_0;
  if (place.stem == "attn_output" && few && mix.more_bits) return DType::kQ5_K;
  if (place.stem.starts_with("ffn_down") && more) return DType::kQ6_K;
  return mix.base;
}

DType filled_type(DType wanted, int64_t width) {
  if (width % dtype_info(wanted).block_elements == 0) return wanted;
  const DType smaller = wanted == DType::kQ4_K   ? DType::kQ5_0
                        : wanted == DType::kQ5_K ? DType::kQ5_1
                        : wanted == DType::kQ6_K ? DType::kQ8_0
                                                 : DType::kF16;
  return width % dtype_info(smaller).block_elements == 0 ? smaller : DType::kF16;
}

}  // namespace

const GgufMix* find_gguf_mix(std::string_view name) {
  auto row = std::ranges::find_if(
      kMixes, [&](const GgufMix& mix) { return std::ranges::equal(mix.name, name, {}, {}, upper); });
  return row == kMixes.end() ? nullptr : &*row;
}

std::string gguf_mix_names() {
  std::string names;
  for (const GgufMix& mix : kMixes) names += cat(names.empty() ? "" : ", ", mix.name);
  return names;
}

bool is_gguf_matrix(std::string_view stored_name, const std::vector<int64_t>& shape) {
  return shape.size() > 1 && stored_name.ends_with(".weight") &&
         !stored_name.ends_with("ffn_gate_inp.weight");
}

GgufTypeChoice choose_gguf_type(const GgufMix& mix, const GgufModelFacts& model, std::string_view stored_name,
                                const std::vector<int64_t>& shape) {
  if (!is_gguf_matrix(stored_name, shape)) return {DType::kF32, DType::kF32};
  if (!is_gguf_block_type(mix.base)) return {mix.base, mix.base};
  const DType wanted = wanted_type(mix, model, stored_name, shape.back());
  return {filled_type(wanted, shape.back()), wanted};
}

}  // namespace quaver::models
