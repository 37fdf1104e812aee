// Activation order as files store it: the group of each input channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "formats/quant_weight.h"

namespace quaver {

// QuantWeight::permutation from the tensor `name`; `weight` has its shape and group already. Empty when the
// index is that of plain runs. One that is all 0 or all -1 is a placeholder unless `in_earnest`: logged, and
// taken as plain runs. Error(kBadFile) naming file and tensor for a wrong dtype, length or group, or too full
// a group.
std::vector<int32_t> read_group_index(const Checkpoint& checkpoint, const std::string& name,
                                      const QuantWeight& weight, bool in_earnest);

// The inverse.
std::vector<int32_t> group_index_of(const QuantWeight& weight);

}  // namespace quaver
