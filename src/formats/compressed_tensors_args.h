// "weights" and "input_activations" of a group, in our words.
#pragma once

#include <string>

#include "base/json.h"
#include "formats/kv_cache.h"
#include "formats/weight_scheme.h"

namespace quaver {

// `format` is the group's or the file's; empty when neither says. Errors as compressed_settings.
WeightScheme parse_compressed_weights(const json& weights, const std::string& format,
                                      const std::string& what);
ActivationQuant parse_compressed_activation(const json& args, const std::string& what);
KvCacheQuant parse_compressed_kv_cache(const json& args, const std::string& what);

}  // namespace quaver
