// What a pipeline's folder is made of: each component with weights, its class, how it is stored and its size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/diffusers_folder.h"
#include "formats/format.h"

namespace quaver {

struct PipelineComponent {
  std::string name;                // "transformer"
  std::string class_name;          // "FluxTransformer2DModel"
  const Format* format = nullptr;  // null: plain
  int64_t bytes = 0;               // of its tensors, as stored
};

// Sorted by name; components without a config.json (tokenizers, schedulers) are left out. Errors as
// DiffusersFolder::component and detect_format.
std::vector<PipelineComponent> pipeline_components(const DiffusersFolder& folder);

}  // namespace quaver
