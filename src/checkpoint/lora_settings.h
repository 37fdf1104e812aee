// What PEFT writes beside the tensors of a LoRA: how much a layer's update counts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quaver {

// Kept as JSON under "lora_adapter_metadata" in a safetensors header, keys behind a component's name
// ("transformer.lora_alpha"), or in a folder's adapter_config.json, where they stand bare.
class LoraSettings {
 public:
  LoraSettings() = default;  // says nothing
  // Error(kBadFile) naming the key; Error(kUnsupported) for what is more than a plain LoRA. `what` names the
  // file.
  LoraSettings(const json& object, const std::string& what);

  // What multiplies the layer's update where no tensor says otherwise: alpha / rank.
  double scale(std::string_view layer, int64_t rank) const;

 private:
  struct Group {
    std::string component;  // may be empty: all
    double alpha = 0;
    std::map<std::string, double> alphas;  // of layers whose name ends in the key
    bool by_root = false;                  // alpha / sqrt(rank), "rslora"
  };
  static Group read_group(const json& object, const std::string& prefix, const std::string& what);
  std::vector<Group> groups_;
};

}  // namespace quaver
