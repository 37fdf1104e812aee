// What a run decided about layers, in a format's words.
#pragma once

#include <map>
#include <string>

#include "formats/format.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// Precondition: bits below 16.
WeightScheme form_of(const Scheme& scheme, const Format& format);

// The scheme of most layers and what differs from it; the rest of a Recipe is left as it is. Decisions are by
// layer.
Recipe recipe_of(const Scheme& base, const std::map<std::string, LayerDecision>& decisions,
                 const Format& format);

}  // namespace quaver::quantize
