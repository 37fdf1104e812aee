// Which integer scheme a config gives a layer: defaults, block scope and per-layer rules with their
// precedence.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "formats/name_pattern.h"
#include "formats/weight_scheme.h"

namespace quaver {

struct IntScheme {
  int bits = 4;
  int64_t group_size = 128;  // -1: one group per output row
  bool sym = true;
  bool plain = false;                          // 16 bits or more: not quantized
  std::string rule;                            // the key that says so; empty for the defaults
  std::shared_ptr<const WeightScheme> scaled;  // set where it is no integer scheme but this
};

struct LayerRule {
  NamePattern pattern;
  IntScheme scheme;
};

struct LayerRules {
  IntScheme defaults;
  std::vector<LayerRule> rules;     // in the order of the file
  std::vector<std::string> blocks;  // name prefixes outside of which the default is plain; empty: everywhere

  // What the config says of this layer, best first: rules by fit (exact, suffix, pattern, inside) and then by
  // order, block scope, defaults. Never empty. Packed tensors may contradict the first one, hence the list.
  std::vector<IntScheme> candidates(std::string_view layer) const;

  // Keys and blocks that fit no tensor of the checkpoint, in the order of the file.
  std::vector<std::string> unmatched(const Checkpoint& checkpoint) const;
};

// Reads "bits", "group_size" and "sym" over `base`; 16 bits or more make a plain scheme. Error(kBadFile)
// beginning with `what` for values that are no scheme, Error(kUnsupported) for a "data_type" that is not an
// integer's.
IntScheme parse_int_scheme(const json& body, const IntScheme& base, std::string_view what);

// Every module that owns a tensor: "model.norm" of "model.norm.weight".
std::unordered_set<std::string> module_names(const Checkpoint& checkpoint);

// A list of names given as a list, a list of lists, or one string with commas. Null gives none.
std::vector<std::string> parse_name_list(const json& value, std::string_view what);

}  // namespace quaver
