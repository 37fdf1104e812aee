// Linear layers as `quaver inspect` shows them: shape, storage, size and the kernel that would run each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "nn/linear.h"

namespace quaver::apps {

struct Layer {
  std::string name, storage, kernel;  // storage: "int4 g128 sym" or "bf16"
  std::string input;                  // "e4m3fn per token"; empty when it is not quantized
  int64_t out = 0, in = 0, bytes = 0;
};

Layer layer_of(std::string name, const nn::Linear& linear);

json layers_json(const std::vector<Layer>& layers);

// A line for each layer, then how many there are of each kind and what they take of `total_bytes`.
void print_layers(const std::vector<Layer>& layers, int64_t total_bytes);

}  // namespace quaver::apps
