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

// What latent attention multiplies its score scale by, for YaRN's factor and the config's "mscale_all_dim"; 1
// without them.
double read_rope_score_factor(const ConfigReader& config, const nn::RopeSpec& rope);

// Two tables, for layers that see everything and layers with a window. `local_theta` is the latter's default.
struct LayeredRope {
  nn::RopeSpec full, sliding;
};
LayeredRope read_layered_rope(const ConfigReader& config, const RopeDefaults& defaults, double local_theta);

}  // namespace quaver::models
