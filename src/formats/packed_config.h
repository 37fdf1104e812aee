// What the configs of the packed integer formats have in common, read and written.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "formats/format.h"
#include "formats/layer_rules.h"
#include "formats/packed_layer.h"
#include "formats/quantization_config.h"

namespace quaver {

// One checkpoint's settings, ready to be asked about layers. Immutable.
struct PackedSettings {
  LayerRules rules;
  PackedConvention convention;
};

// Reads a vendor's settings; `what` begins error messages.
using PackedReader = PackedSettings (*)(const Checkpoint&, const QuantizationConfig&,
                                        const std::string& what);

// Settings of this checkpoint by this reader, read once and kept with the checkpoint under `name`.
std::shared_ptr<const PackedSettings> packed_settings(const Checkpoint& checkpoint, const char* name,
                                                      PackedReader reader);

// Whether the checkpoint's method is one of these.
bool names_method(const Checkpoint& checkpoint, std::initializer_list<std::string_view> methods);

// Error(kUnsupported) naming the first of these keys that is set to something other than null, false or
// empty: each would change what the codes mean.
void refuse_keys(const json& settings, std::initializer_list<const char*> keys, std::string_view what);

// Error(kUnsupported) when activations are to be quantized, which weight-only layers here are not.
void refuse_quantized_activations(const json& settings, std::string_view what);

// Keys that every exporter of the family writes, plus what of `recipe.tuning` differs from the tool's
// defaults.
json packed_config_json(const Recipe& recipe, const char* method);

// "bits", "group_size" and "sym" of weight-only integers; Error(kInvalidInput) where the recipe asks for
// anything else.
json packed_integer_settings(const Recipe& recipe);

// "a,b"
std::string join_names(const std::vector<std::string>& names);

}  // namespace quaver
