// One row per vendor format: how a checkpoint says that a layer is quantized, and in which tensors.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "formats/kv_cache.h"
#include "formats/quant_weight.h"
#include "formats/recipe.h"

namespace quaver {

// The tensors that make one layer, under which scheme. Empty `tensors` means: this layer is plain.
struct LayerPlan {
  std::string layer;                 // "model.layers.0.self_attn.q_proj"
  std::vector<std::string> tensors;  // full names, in the order `unpack` wants them
  json scheme;                       // this layer's effective settings, as the format spells them
  // Tensors that belong to the layer and say nothing; `unpack` does not read them.
  std::vector<std::string> dropped;
  // Logical [out, in] that the model expects; set it before `unpack`, which then cuts padding off and refuses
  // other shapes. {0, 0} takes the shape from the tensors.
  Extent2d shape;
};

struct Format {
  const char* name;                 // "auto_round"
  const char* tool_name = nullptr;  // what quantizers call it, where that is another name: "llm_compressor"
  // What "quant_method" may say; engines take the same words from their users.
  std::initializer_list<std::string_view> methods;
  // True when this checkpoint is written in this format; from config and tensor names alone.
  bool (*detect)(const Checkpoint&);
  // Throws Error(kBadFile) naming file and tensor where config and tensors disagree.
  LayerPlan (*plan)(const Checkpoint&, std::string_view layer);
  // Throws Error(kBadFile) on wrong dtypes, shapes, scales or zero points.
  QuantWeight (*unpack)(const LayerPlan&, const Checkpoint&);
  // Null when read-only. Names carry the layer as prefix.
  std::vector<NamedTensor> (*pack)(const QuantWeight&, std::string_view layer, const Recipe&);
  // The value of "quantization_config". Null when read-only.
  json (*config_json)(const Recipe&);
  // The file beside config.json that says it once more, and in which form; null: as it is.
  const char* settings_file = "quantization_config.json";
  json (*settings_of_file)(const json& config) = nullptr;
  int smallest_zero_point = 0;                  // that `pack` can store
  bool whole_groups = false;                    // its readers refuse layers whose last groups are short
  PowerOfTwo input_power = PowerOfTwo::kFloor;  // what its readers do with MX inputs; no file says it
  // Rules of the config that fit no tensor, in the file's order; a whole load logs them.
  std::vector<std::string> (*unmatched_rules)(const Checkpoint&);
  // What the settings ask of the key and value cache; none where they don't. Null: the format has no such
  // key.
  std::optional<KvCacheQuant> (*kv_cache)(const Checkpoint&);
  // The two multipliers of an attention layer's keys and values as this format names them. Null: it has no
  // such names.
  std::vector<NamedTensor> (*pack_kv)(std::string_view attention, const KvPair& scales) = nullptr;
  // The layers that are quantized, in the order of their tensors. Null: they are named as their tensors are.
  std::vector<std::string> (*layers)(const Checkpoint&) = nullptr;
  // The checkpoint gives the values of quantized tensors too, as plain ones: jobs that want a plain model
  // take those.
  bool has_plain_values = false;
};

// All rows, in the order in which they are asked.
std::span<const Format> all_formats();

// The row that claims this checkpoint; null for a plain one. A "quantization_config" that no row claims is
// Error(kUnsupported) naming its method; packed tensors without any settings are Error(kBadFile).
const Format* detect_format(const Checkpoint& checkpoint);

// Layers that this format has quantized, in the order of their tensors.
std::vector<std::string> quantized_layers(const Checkpoint& checkpoint, const Format& format);

// By either name; null when unknown.
const Format* find_format(std::string_view name);

// By any name that tools and settings have for it, in lower or upper case; null when unknown.
const Format* format_called(std::string_view name);

}  // namespace quaver
