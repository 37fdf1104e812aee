// Which layers are quantized and how: presets, flags and per-layer overrides resolved into one table before
// any work.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "formats/weight_scheme.h"

namespace quaver::quantize {

// What codes are, in AutoRound's words: "int", "fp" (e4m3fn), "mx_fp" (e2m1 or e4m3fn under power-of-two
// scales of 32), "nv_fp" (e2m1 under e4m3fn scales of 16 under one scale for the weight).
enum class DataType : uint8_t { kInt, kFp, kMxFp, kNvFp };

// What is asked of a layer's input.
struct ActivationScheme {
  int bits = 16;            // 16: nothing
  int64_t group_size = -1;  // input channels that share a scale; -1 = a token, 0 = all tokens
  DataType data_type = DataType::kInt;
  bool dynamic = true;  // false: one scale, found by calibration
  bool operator==(const ActivationScheme&) const = default;
};

// How one layer is quantized.
struct Scheme {
  int bits = 4;              // 16 leaves the layer as it is
  int64_t group_size = 128;  // input channels that share a scale; -1 = the whole row, 0 = the whole weight
  bool sym = true;
  bool zero_from_one = false;  // asymmetric zero points in [1, 2^bits - 1], where the file can't hold a 0
  DataType data_type = DataType::kInt;
  int64_t group_rows = 1;  // output channels that share a scale
  ActivationScheme activation = {};
  bool operator==(const Scheme&) const = default;
};

std::string to_string(const Scheme& scheme);  // "W4A16 g128 sym"

// In the words of formats. Precondition: bits below 16.
WeightScheme stored_scheme(const Scheme& scheme);
// True when bits, group size and symmetry say all there is.
bool is_plain_integer(const Scheme& scheme);

// "W2A16, W2A16G64, ..."
std::string preset_names();

// "W4A16", "w2a16g64", ... ; Error(kInvalidInput) lists the known names.
Scheme scheme_from_name(std::string_view name);

// Error(kInvalidInput) naming the field where bits or group size can't be had.
void validate_scheme(const Scheme& scheme, std::string_view where);

// What the command line says about layers.
struct LayerRules {
  Scheme base;
  // Name, partial name or regular expression -> {"bits", "group_size", "sym"} or a preset's name. A field
  // that is not given keeps the base scheme's value. An exact name beats a pattern; among patterns the last
  // one given wins.
  std::vector<std::pair<std::string, json>> layer_config;
  // Exact name first, otherwise substring; an entry that ends in a digit matches whole numbers only (layer 1
  // is not 10).
  std::vector<std::string> ignore_layers;
  // Layers that engines fuse get one scheme: that of the layer with the most bits.
  bool align_fused = false;
  bool quant_head = false;  // the head is a layer like others; else it stays as it is
};

struct LayerShape {
  std::string name;  // full checkpoint name
  int64_t out = 0, in = 0;
  std::string fused = {};   // equal for layers that engines fuse (q, k, v; gate, up); empty = alone
  bool modulation = false;  // as models::NamedLinear has it
};

struct LayerDecision {
  std::string name;
  Scheme scheme;
  std::string reason;  // why it stays at 16 bits or differs from the base; empty otherwise
};

// One decision per layer, in the given order; logs groups of fused layers whose schemes differ.
// Error(kInvalidInput) when a rule matches no layer or says something illegal.
std::vector<LayerDecision> decide_layers(const LayerRules& rules, std::span<const LayerShape> layers);

}  // namespace quaver::quantize
