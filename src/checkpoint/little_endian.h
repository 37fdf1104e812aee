// Numbers in a file's bytes, least significant byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quaver {

// Precondition: all `width` bytes, at most 8, lie inside.
inline uint64_t read_little_endian(std::span<const std::byte> bytes, size_t offset, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[offset + i]);
  return value;
}

// The lowest `width` bytes of `value`; room for them is the caller's.
inline void write_little_endian(std::byte* out, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

}  // namespace quaver
