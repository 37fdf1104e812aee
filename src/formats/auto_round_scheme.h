// AutoRound's data types other than integers: what they say of codes, scales and activations.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "formats/weight_scheme.h"

namespace quaver {

// True when "data_type" names floats or power-of-two scaled integers rather than plain integers.
bool has_scaled_data_type(const json& settings, const std::string& what);

// Reads the complete settings of one layer or of all. Error(kUnsupported) naming the key for a data type,
// width or activation that is not among the table's, Error(kBadFile) for values that are none.
WeightScheme parse_scaled_scheme(const json& settings, const std::string& what);

// The inverse: "data_type", "bits", "group_size", the keys of activations and "packing_format".
// Error(kInvalidInput) for a scheme that AutoRound has no packing for.
json scaled_settings(const WeightScheme& scheme);

}  // namespace quaver
