// What Quark's settings say: tensor specifications, and which of them a layer has.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/format.h"
#include "formats/name_pattern.h"

namespace quaver {

// How a layer's weight lies on disk and what becomes of its input.
struct QuarkScheme {
  enum class Layout { kRows, kSignedRows, kWordsAlongOut };
  Element element = Element::kE4M3FN;
  Layout layout = Layout::kRows;
  Extent2d group;                       // that one scale covers; 0 stands for the whole extent
  ScaleCodec scale = ScaleCodec::kF32;  // kF32 stands for any plain float
  bool second = false;                  // `weight_scale_2` multiplies
  bool sym = true;
  bool signed_codes = true;  // of kWordsAlongOut
  ActivationQuant activation;
};

// From {"weight": ..., "input_tensors": ...}. Error(kUnsupported) naming the key that Quaver can't run,
// Error(kBadFile) for what is no specification; both begin with `what`.
QuarkScheme parse_quark_scheme(const json& layer, std::string_view what);

struct QuarkSettings {
  struct Rule {
    NamePattern pattern;
    std::string key;
    json layer;
  };

  json defaults;  // null where only named layers are quantized
  std::vector<Rule> rules;
  std::vector<NamePattern> excluded;
  std::vector<NamePattern> cached;  // layers whose output goes to the key and value cache as e4m3fn
  bool reordered = true;            // "pack_method"
  std::string file;                 // for messages

  // The specification of a layer and the key that gives it; null where none does.
  std::pair<json, std::string> layer(std::string_view name) const;
  bool excludes(std::string_view name) const;
  bool caches(std::string_view name) const;
};

// Read once and kept with the checkpoint.
std::shared_ptr<const QuarkSettings> quark_settings(const Checkpoint& checkpoint);

}  // namespace quaver
