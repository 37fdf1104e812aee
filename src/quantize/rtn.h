// Round to nearest: scales straight from each group's extremes.
#pragma once

#include <span>

#include "quantize/rounding.h"

namespace quaver::quantize {

// With M = 2^(bits-1), Q = 2^bits - 1, m- = min(0, min w), m+ = max(0, max w):
//   symmetric: s = f16(m+ < -m- ? -m- / M : -m+ / M), so that the larger extreme takes code 0; |s| at least
//   f16(1e-5) asymmetric: s = max(f16((m+ - m-) / Q), f16(1e-5)), z = rne(-m- / s)
// Sources: the published formulas of AutoRound and, for the full-range sign, llama.cpp. Of bfloat16 weights
// the sum and the quotients before f16 are rounded to bfloat16, so that codes, zero points and scales equal
// the tool's bit for bit.
QuantWeight rtn(std::span<const float> weight, const RoundingProblem& problem);

}  // namespace quaver::quantize
