// Little-endian bit streams of fixed-width codes: how canonical rows are stored and how most packings are,
// too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quaver {

// Bytes that `count` codes take, rounded up to whole bytes. Precondition: the product does not overflow.
constexpr int64_t bitstream_bytes(int64_t count, int bits) { return (count * bits + 7) / 8; }

// Code `index` of a stream; touches only the bytes that hold it. bits in [1, 8].
inline uint32_t read_code(const std::byte* stream, int64_t index, int bits) {
  const int64_t bit = index * bits;
  const int shift = static_cast<int>(bit & 7);
  uint32_t window = static_cast<uint32_t>(stream[bit >> 3]) >> shift;
  if (shift + bits > 8) window |= static_cast<uint32_t>(stream[(bit >> 3) + 1]) << (8 - shift);
  return window & ((1u << bits) - 1);
}

// Spreads `count` codes to one byte each.
void unpack_codes(const std::byte* stream, int bits, int64_t count, uint8_t* codes);

// The inverse; writes bitstream_bytes(count, bits) bytes, unused high bits zero. Codes must be below 2^bits.
void pack_codes(const uint8_t* codes, int bits, int64_t count, std::byte* stream);

}  // namespace quaver
