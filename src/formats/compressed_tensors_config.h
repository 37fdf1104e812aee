// The settings of compressed-tensors: groups of layers with a scheme each, and what is left plain.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.h"
#include "formats/name_pattern.h"

namespace quaver {

// One entry of "targets" or "ignore": a layer's name, "re:" and an expression from the start, or a module's
// class.
struct CompressedTarget {
  std::string text;
  std::optional<NamePattern> pattern;  // empty for classes
  bool every_linear = false;           // a class of linear layers; other classes hold none

  // Greater beats less; 0 for no fit.
  int rank(std::string_view layer) const;
};

struct CompressedGroup {
  std::vector<CompressedTarget> targets;
  WeightScheme scheme;
};

struct CompressedSettings {
  std::vector<CompressedGroup> groups;  // in the order of the file
  std::vector<CompressedTarget> ignored;
  std::optional<KvCacheQuant> kv_cache;

  // Schemes for this layer, best first: ignored, then by how its targets name it, then in the order of the
  // file.
  std::vector<WeightScheme> candidates(std::string_view layer) const;
};

// Read once and kept with the checkpoint. Error(kUnsupported) naming the key for sparsity, transforms and
// whatever else changes the meaning of the tensors, Error(kBadFile) for values that are none.
std::shared_ptr<const CompressedSettings> compressed_settings(const Checkpoint& checkpoint);

// "quantization_config" of a recipe.
json compressed_config_json(const Recipe& recipe);

// What a recipe asks of a layer, but for integers with other bits, group size or symmetry.
WeightScheme compressed_scheme_of(const Recipe& recipe, std::string_view layer);

}  // namespace quaver
