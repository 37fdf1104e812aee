// Rotary angles of tokens that stand on a grid: each axis turns its own share of a head's pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/rope.h"

namespace quaver::nn {

// Axis a owns `dims[a]` (even) dimensions, with frequencies theta^(-2 j / dims[a]); angles in float64. For
// apply_interleaved_rope.
RopeAngles axis_angles(const at::Tensor& positions,       // int64 [tokens, axes]
                       const std::vector<int64_t>& dims,  // one per axis
                       double theta,
                       at::ScalarType dtype);  // -> [tokens, sum of dims / 2]

}  // namespace quaver::nn
