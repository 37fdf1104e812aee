#include "formats/bitstream.h"

#include <bit>
#include <cstring>

namespace quaver {

static_assert(std::endian::native == std::endian::little, "files hold little-endian words");

void unpack_codes(const std::byte* stream, int bits, int64_t count, uint8_t* codes) {
  // Eight codes take `bits` whole bytes, so every eighth one starts on a byte.
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const int64_t blocks = count / 8;
  for (int64_t block = 0; block < blocks; ++block) {
    uint64_t window = 0;
    std::memcpy(&window, stream + block * bits, static_cast<size_t>(bits));
    for (int i = 0; i < 8; ++i) codes[block * 8 + i] = static_cast<uint8_t>((window >> (i * bits)) & mask);
  }
  for (int64_t i = blocks * 8; i < count; ++i) codes[i] = static_cast<uint8_t>(read_code(stream, i, bits));
}

void pack_codes(const uint8_t* codes, int bits, int64_t count, std::byte* stream) {
  for (int64_t first = 0; first < count; first += 8) {
    const int64_t here = count - first < 8 ? count - first : 8;
    uint64_t window = 0;
    for (int64_t i = 0; i < here; ++i) window |= static_cast<uint64_t>(codes[first + i]) << (i * bits);
    std::memcpy(stream + first / 8 * bits, &window, static_cast<size_t>(bitstream_bytes(here, bits)));
  }
}

}  // namespace quaver
