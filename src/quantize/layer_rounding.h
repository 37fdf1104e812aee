// One layer rounded without tuning, and what the calibration fixes of its input.
#pragma once

#include <string>

#include "formats/quant_weight.h"
#include "quantize/autoround.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// Plain rounding keeps the weights' own ranges; the search takes those of least error under
// `layer.importance` (opt_rtn.h, range_search.h), and rounds integers plainly that saw no token.
enum class RoundingMethod { kPlain, kSearched };

// `name` begins error messages.
QuantWeight round_layer(const TunedLayer& layer, RoundingMethod method, const std::string& name);

// True when the file fixes a scale for the layer's inputs, which only calibration can tell.
bool has_static_input_scale(const Scheme& scheme);

// Fits that scale to the largest magnitude seen.
void set_input_scale(ActivationQuant& input, float largest);

}  // namespace quaver::quantize
