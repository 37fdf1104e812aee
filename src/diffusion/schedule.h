// How much noise is left before each step of a flow-matching sampler.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quaver::diffusion {

// A state is sigma * noise + (1 - sigma) * picture.
struct Schedule {
  std::vector<float> sigmas;  // steps + 1, falling; the last is 0
  int64_t steps() const { return static_cast<int64_t>(sigmas.size()) - 1; }
  // The last `strength` of the way, for starting from a picture: at least one step. Precondition: 0 <
  // strength
  // <= 1.
  Schedule tail(double strength) const;
};

// What scheduler_config.json says of a FlowMatchEulerDiscreteScheduler.
struct FlowMatchSettings {
  bool dynamic_shifting = false;  // by the number of tokens
  double shift = 1;               // where not dynamic
  double base_shift = 0.5, max_shift = 1.15;
  int64_t base_tokens = 256, max_tokens = 4096;
  enum class TimeShift { kExponential, kLinear } time_shift = TimeShift::kExponential;
  double terminal = 0;  // where the shifted sigmas are stretched to end; 0 = they are not
};

// Error(kBadFile) naming the key; Error(kUnsupported) for schedulers and spacings that are not these.
FlowMatchSettings read_flow_match(const json& config, std::string_view what);

// From 1 to 1 / steps in equal steps, shifted towards noise. Exponential shift: e^mu / (e^mu + 1/s - 1), mu
// linear in the number of tokens; else shift * s / (1 + (shift - 1) * s). Esser et al., "Scaling rectified
// flow transformers for high-resolution image synthesis" (2024), section 5.3.
Schedule flow_match_schedule(const FlowMatchSettings& settings, int64_t steps, int64_t tokens);

}  // namespace quaver::diffusion
