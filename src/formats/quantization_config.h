// Where a checkpoint keeps its quantization settings, and which method they name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace quaver {

struct QuantizationConfig {
  json value;                     // the object itself
  std::string file;               // "config.json"
  std::vector<std::string> path;  // keys that lead to it inside the file; empty when it is the whole file
  std::string method;             // "quant_method" in lower case; by the file's name where the key is absent
};

// Searched in this order: config.json's "quantization_config", then "compression_config", then the same key
// in a sub-config ("text_config", "thinker_config.text_config"), then the files that producers put beside it.
// Null for a plain checkpoint. Error(kBadFile) for settings that are no object or that name no method.
std::optional<QuantizationConfig> find_quantization_config(const Checkpoint& checkpoint);

// The members of `config.value.at(key)` in the order of the file, which decides where rules overlap; an
// absent key gives none. Error(kBadFile) when it is no object.
std::vector<std::pair<std::string, json>> ordered_members(const Checkpoint& checkpoint,
                                                          const QuantizationConfig& config, const char* key);

}  // namespace quaver
