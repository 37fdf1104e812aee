// Integer layers stored as 32-bit words in `qweight`, `qzeros`, `scales` and perhaps `g_idx`: three vendors
// share it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/layer_rules.h"

namespace quaver {

// kWordsAlongIn packs codes along the input, kInterleavedAlongOut along the output in the order 0 2 4 6 1 3
// 5 7.
enum class PackedLayout { kWordsAlongIn, kInterleavedAlongOut };

struct PackedConvention {
  PackedLayout layout = PackedLayout::kWordsAlongIn;
  int zero_offset = 0;            // what is added to a stored zero point: 1 or 0
  bool has_group_index = false;   // write `g_idx`
  bool activation_order = false;  // the config says that `g_idx` is in earnest
};

// Decides by the tensors on disk whether the layer is packed; of `candidates` takes the first that fits their
// shapes and logs when that is not the first one. Error(kBadFile) names file and tensor where none fits,
// where a part is missing, or where a plain weight stands beside the packed one.
LayerPlan plan_packed_layer(const Checkpoint& checkpoint, std::string_view layer,
                            const std::vector<IntScheme>& candidates, const PackedConvention& convention);

// Format::unpack of all of them.
QuantWeight unpack_packed_layer(const LayerPlan& plan, const Checkpoint& checkpoint);

// The inverse. Error(kInvalidInput) for what this convention can't hold.
std::vector<NamedTensor> pack_packed_layer(const QuantWeight& weight, std::string_view layer,
                                           const PackedConvention& convention);

}  // namespace quaver
