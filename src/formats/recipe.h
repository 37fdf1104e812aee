// What a format is told to write: the scheme of all layers and what differs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "formats/weight_scheme.h"

namespace quaver {

// The schemes that a recipe may ask for; what `pack` and `config_json` need to know.
struct Recipe {
  int bits = 4;
  int64_t group_size = 128;  // -1: one group per output row
  bool sym = true;
  std::vector<std::string> block_names;                       // "model.layers"
  std::vector<std::pair<std::string, json>> layer_overrides;  // only what differs; bits 16: stays plain
  std::vector<std::string> plain_modules;                     // linear layers outside the blocks, left plain
  json tuning;                                                // iters, lr, nsamples ...: kept for the record
  // What `bits`, `group_size` and `sym` can't say: floats, activations. Beats them where it is set.
  std::optional<WeightScheme> scheme;
  // Layers with a form of their own where it or that of all others is more than such three numbers.
  std::map<std::string, WeightScheme, std::less<>> form_overrides;
  bool fp8_kv_cache = false;        // attention layers bring scales for keys and values in e4m3fn
  std::vector<std::string> layers;  // all that are quantized, for formats that name each
};

// What is asked of one layer where three numbers can't say it; null = weight-only integers.
const WeightScheme* form_of_layer(const Recipe& recipe, std::string_view layer);

// Quantized layers that lie in none of the blocks: a head.
std::vector<std::string> layers_outside_blocks(const Recipe& recipe);

// Error(kInvalidInput) naming the first layer that has a form of its own.
void refuse_form_overrides(const Recipe& recipe, std::string_view reason);

}  // namespace quaver
