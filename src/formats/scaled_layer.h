// Layers stored as `weight` or `weight_packed` beside `weight_scale` and its kin: FP8, MX, NVFP4 and integers
// of several vendors, who differ in the suffixes of this table only.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/weight_scheme.h"

namespace quaver {

enum class Part : uint8_t {
  kCodes,
  kScale,
  kDivisor,  // F32, one number that divides the scales
  kZeroPoint,
  kGroupIndex,
  kShape,       // I64 [2], the logical extents of packed codes
  kInputScale,  // one number, x = code * it
  kInputZeroPoint,
  kInputDivisor,  // F32, one number that divides the input's scales
};

struct PartName {
  const char* suffix;
  Part part;
};

inline constexpr std::array kPartNames = {
    PartName{"weight", Part::kCodes},
    PartName{"weight_packed", Part::kCodes},
    PartName{"weight_scale", Part::kScale},
    PartName{"weight_scale_inv", Part::kScale},
    PartName{"qscale_weight", Part::kScale},
    PartName{"weight_global_scale", Part::kDivisor},
    PartName{"weight_zero_point", Part::kZeroPoint},
    PartName{"weight_g_idx", Part::kGroupIndex},
    PartName{"weight_shape", Part::kShape},
    PartName{"input_scale", Part::kInputScale},
    PartName{"activation_scale", Part::kInputScale},
    PartName{"qscale_act", Part::kInputScale},
    PartName{"input_zero_point", Part::kInputZeroPoint},
    PartName{"input_global_scale", Part::kInputDivisor},
};

// Decides by the tensors on disk whether the layer is quantized; of `candidates` takes the first that fits
// them and logs when that is not the first one. Error(kBadFile) names file, tensor and setting where none
// fits, where a part is missing or where a part has no use.
LayerPlan plan_scaled_layer(const Checkpoint& checkpoint, std::string_view layer,
                            const std::vector<WeightScheme>& candidates);

// True when the layer has a scale or packed codes: parts of a quantized layer.
bool has_scaled_parts(const Checkpoint& checkpoint, std::string_view layer);

// Format::unpack of all of them.
QuantWeight unpack_scaled_layer(const LayerPlan& plan, const Checkpoint& checkpoint);

// The inverse, by the first suffix of each part. Of the scheme only the storage counts, and whether there is
// one scale for all. Error(kInvalidInput) for what the parts can't hold.
std::vector<NamedTensor> pack_scaled_layer(const QuantWeight& weight, std::string_view layer,
                                           const WeightScheme& scheme);

}  // namespace quaver
