// Reads the canonical code rows of a quantized weight: little-endian bit streams, low bits first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quaver::kernels {

inline int64_t code_row_bytes(int64_t k, int bits) { return (k * bits + 7) / 8; }

// Code `index` of a row that is `row_bytes` long.
inline uint8_t read_code(const std::byte* row, int64_t row_bytes, int64_t index, int bits) {
  int64_t bit = index * bits, byte = bit / 8;
  auto window = static_cast<unsigned>(row[byte]);
  if (byte + 1 < row_bytes) window |= static_cast<unsigned>(row[byte + 1]) << 8;
  return static_cast<uint8_t>((window >> (bit % 8)) & ((1u << bits) - 1u));
}

}  // namespace quaver::kernels
