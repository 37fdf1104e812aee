// The architectures of GGUF files that can be opened, one row each.
#pragma once

#include <string_view>

#include "base/json.h"
#include "checkpoint/gguf.h"

namespace quaver::models {

// Holds one divisor per rotation frequency; what it says goes into the config.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

struct GgufArchitecture {
  std::string_view name;          // "general.architecture", and the prefix of its metadata keys
  const char* model_type;         // of config.json
  const char* architecture;       // of config.json's "architectures"
  bool interleaved_rope = false;  // query and key rows lie as pairs of a rotation
  bool four_norms = false;        // norms after attention and feed-forward too; windows on most layers
  bool norms_plus_one = false;    // norm weights are stored with 1 added
  bool experts = false;
};

// Of the file's "general.architecture". Error(kUnsupported) lists the known ones.
const GgufArchitecture& gguf_architecture(const GgufFile& file);

// Of a config's "model_type", or of the text tower's in it. Error(kUnsupported), beginning with `what`, lists
// those that have a row.
const GgufArchitecture& gguf_architecture(const json& config, std::string_view what);

}  // namespace quaver::models
