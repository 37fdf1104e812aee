// AutoRound's own format, written.
#pragma once

#include <string>
#include <vector>

#include "formats/format.h"
#include "formats/packed_layer.h"

namespace quaver {

// Of a "packing_format": "auto_round:auto_gptq", "auto_round:gptq:exllamav2", "auto_round",
// "autoround:exllamav2", "auto_round:awq" ...: whatever follows the layout names a kernel and says nothing
// about the bytes. Error(kUnsupported) for another layout.
PackedConvention auto_round_convention(const std::string& packing, const std::string& what);

// Integers in packed words; floats as codes and scales of their own. Error(kInvalidInput) for what AutoRound
// has no name for: integers under quantized activations, and 8-bit floats other than FP8_STATIC, FP8_BLOCK
// and FPW8A16.
std::vector<NamedTensor> pack_auto_round_layer(const QuantWeight& weight, std::string_view layer,
                                               const Recipe& recipe);
json auto_round_config_json(const Recipe& recipe);

}  // namespace quaver
