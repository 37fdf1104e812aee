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

uint64_t Checkpoint::stored_bytes(const TensorInfo& info) const {
  const DTypeInfo &stored = dtype_info(stored_type(info.name)), &read = dtype_info(info.dtype);
  const auto count =
      info.size_bytes / static_cast<uint64_t>(read.block_bytes) * static_cast<uint64_t>(read.block_elements);
  return count / static_cast<uint64_t>(stored.block_elements) * static_cast<uint64_t>(stored.block_bytes);
}

std::shared_ptr<const void> Checkpoint::memo(std::string_view key,
                                             const std::function<std::shared_ptr<const void>()>& make) const {
  std::lock_guard lock(memo_mutex_);
  auto it = memos_.find(key);
  if (it == memos_.end()) it = memos_.emplace(key, make()).first;
  return it->second;
}

}  // namespace quaver
