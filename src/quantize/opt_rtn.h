// Round to nearest with a search for each group's scale, weighted by how much each input channel matters.
#pragma once

#include <span>

#include "quantize/rounding.h"

namespace quaver::quantize {

// Symmetric: of the scales 1 / s = -(M - k d) / w*, with w* the group's element of largest magnitude and M =
// 2^(bits-1), takes the one that minimises sum h (s q - w)^2; k d runs over +-0.75 M in 200 steps, for 2 bits
// over +-0.9 in 180. `importance` holds h per input channel, a sum of squared inputs; empty counts all alike,
// and channels at zero take the mean of their group or, where most are zero, the weights' own magnitudes.
// Asymmetric: rtn, since an integer zero point breaks a search over scales alone. The search and all its
// roundings (bfloat16 for bfloat16 weights) are AutoRound 0.16's, whose codes and scales come out bit for
// bit.
QuantWeight opt_rtn(std::span<const float> weight, std::span<const float> importance,
                    const RoundingProblem& problem);

}  // namespace quaver::quantize
