#include "checkpoint/checkpoint.h"

#include <algorithm>

namespace quaver {

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto& all = tensors();
  auto it =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const TensorInfo& info, std::string_view wanted) { return info.name < wanted; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

}  // namespace quaver
