// Tensors as views of mapped bytes, copied only where the machine could not read their elements in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

// Plain types must lie on a multiple of their element's size; block types are read bytewise and may lie
// anywhere.
inline TensorView mapped_tensor(const TensorInfo& info, std::span<const std::byte> bytes,
                                std::shared_ptr<const void> owner) {
  const DTypeInfo& dtype = dtype_info(info.dtype);
  size_t alignment = dtype.block_elements == 1 ? static_cast<size_t>(dtype.block_bytes) : 1;
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0;
  return {info.dtype, info.shape, aligned ? Buffer(bytes, std::move(owner)) : Buffer::copy_of(bytes)};
}

// Lets the whole pages of a mapping that hold nothing but these bytes leave the resident set; the bytes stay
// valid. A failure costs memory only.
void release_pages(std::span<const std::byte> mapped);

}  // namespace quaver
