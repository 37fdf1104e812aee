// Tells whether a checkpoint holds one tensor twice.
#pragma once

#include <string_view>

#include "checkpoint/checkpoint.h"

namespace quaver::models {

// Preconditions: both exist.
bool same_tensor(const Checkpoint& checkpoint, std::string_view a, std::string_view b);

}  // namespace quaver::models
