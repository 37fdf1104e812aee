// A layer that a quantizer may touch, and where a model keeps it.
#pragma once

#include <string>

#include "nn/linear.h"

namespace quaver::models {

// Layers that inference fuses share a group number (q, k, v; gate, up).
struct NamedLinear {
  std::string name;  // by checkpoint name relative to the block: "self_attn.q_proj"
  nn::Linear* linear;
  int fusion_group;
  int expert = -1;  // which one of the block it is part of; -1: none
  // Makes the shifts, scales and gates of a norm: its errors meet every token, so that weights that are
  // rounded without calibration leave it out.
  bool modulation = false;
};

}  // namespace quaver::models
