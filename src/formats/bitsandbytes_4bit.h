// bitsandbytes' 4-bit weights: one flat stream of codes with a scale for every run of 64 or so, whatever the
// rows are.
#pragma once

#include <string>
#include <string_view>

#include "formats/format.h"

namespace quaver {

// The name of the tensor that describes the layer's codes; empty when there is none. Error(kBadFile) when
// there are two.
std::string find_4bit_state(const Checkpoint& checkpoint, std::string_view layer);

// Names of all tensors of the layer that this state belongs to. Error(kBadFile) naming the one that is
// missing.
std::vector<std::string> tensors_4bit(const Checkpoint& checkpoint, std::string_view layer,
                                      const std::string& state);

// Precondition: plan.tensors is what `tensors_4bit` gave.
QuantWeight unpack_4bit(const LayerPlan& plan, const Checkpoint& checkpoint);

}  // namespace quaver
