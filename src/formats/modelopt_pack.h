// What Model Optimizer's files hold, written: FP8 and NVFP4.
#pragma once

#include "formats/format.h"

namespace quaver {

// Format::pack. The weight itself says which of the algorithms it is. Error(kInvalidInput) for weights of
// another kind.
std::vector<NamedTensor> pack_modelopt_layer(const QuantWeight& weight, std::string_view layer,
                                             const Recipe&);

// Format::settings_of_file: the older layout, which some engines still read alone.
json modelopt_settings_of_file(const json& config);

// Format::config_json: one algorithm, or MIXED_PRECISION and each layer by name. Error(kInvalidInput) where
// a layer's scheme is none of them.
json modelopt_config_json(const Recipe& recipe);

}  // namespace quaver
