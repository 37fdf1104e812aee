// Where writers get their tensors from, one in memory at a time.
#pragma once

#include <functional>

#include "checkpoint/checkpoint.h"

namespace quaver {

// Called once for each tensor, in the order of writing; must return exactly the dtype and shape announced.
using TensorSource = std::function<TensorView(const TensorInfo&)>;

}  // namespace quaver
