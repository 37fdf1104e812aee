// What Model Optimizer's settings say: one algorithm for all layers or one for each, and what is left out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/layer_reader.h"
#include "formats/name_pattern.h"

namespace quaver {

struct ModelOptAlgorithm {
  enum class Group { kTensor, kRow, kBlock, kAlongIn };  // what one scale covers
  enum class Second { kNone, kMultiplies, kUnused };     // what `weight_scale_2` does
  const char* name;
  Element element;
  CodeLayout layout;
  Group group;
  ScaleCodec scale;  // kF32 stands for any plain float
  Second second;
  ActivationQuant activation;

  // Whether the input's scale, or the second level of its scales, stands in `input_scale`.
  bool has_input_scale() const;
};

// By name; null when there is none.
const ModelOptAlgorithm* find_modelopt_algorithm(std::string_view name);

struct ModelOptSettings {
  struct Layer {
    const ModelOptAlgorithm* algorithm = nullptr;
    int64_t group_size = 0;  // 0: not said
    std::string rule;        // the key that says so, for messages
  };

  Layer defaults;                                    // without algorithm where each layer has its own
  std::map<std::string, Layer, std::less<>> layers;  // by names without "language_model."
  std::vector<NamePattern> ignored;
  bool fp8_cache = false;
  std::string file;  // for messages

  // What the settings ask of a layer; no algorithm where it is left plain.
  Layer layer(std::string_view name) const;
  bool ignores(std::string_view name) const;
};

// Read once and kept with the checkpoint. Error(kBadFile) for settings that contradict each other,
// Error(kUnsupported) naming the key or algorithm that Quaver does not know.
std::shared_ptr<const ModelOptSettings> modelopt_settings(const Checkpoint& checkpoint);

}  // namespace quaver
