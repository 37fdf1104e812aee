// Reads rotary settings, in the merged spelling ("rope_parameters") and the older one ("rope_theta",
// "rope_scaling").
#pragma once

#include <cstdint>

#include "models/llm/config_reader.h"
#include "nn/rope.h"

namespace quaver::models {

struct RopeDefaults {
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  double theta = 10000;  // where the config gives none
};

// Error(kUnsupported) names an unknown rope type.
nn::RopeSpec read_rope(const ConfigReader& config, const RopeDefaults& defaults);

// Two tables, for layers that see everything and layers with a window. `local_theta` is the latter's default.
struct LayeredRope {
  nn::RopeSpec full, sliding;
};
LayeredRope read_layered_rope(const ConfigReader& config, const RopeDefaults& defaults, double local_theta);

}  // namespace quaver::models
