// TIFF: byte order, offset of the first directory, entries of 12 bytes.
#include "media/exif.h"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace quaver::media {
namespace {

constexpr std::string_view kExifPrefix{"Exif\0\0", 6};
constexpr uint32_t kOrientationTag = 0x0112, kShortType = 3;

class TiffBlock {
 public:
  TiffBlock(std::span<const std::byte> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  bool holds(size_t at, size_t size) const { return at <= bytes_.size() && size <= bytes_.size() - at; }

  // Precondition: holds(at, size).
  uint32_t number(size_t at, size_t size) const {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value = value << 8 | std::to_integer<uint32_t>(bytes_[at + (big_endian_ ? i : size - 1 - i)]);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

int orientation_in_directory(const TiffBlock& tiff) {
  constexpr size_t kHeaderBytes = 8, kEntryBytes = 12;
  if (!tiff.holds(0, kHeaderBytes)) return 1;
  const size_t directory = tiff.number(4, 4);
  if (!tiff.holds(directory, 2)) return 1;
  const size_t count = tiff.number(directory, 2);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (!tiff.holds(entry, kEntryBytes)) return 1;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    const bool one_short = tiff.number(entry + 2, 2) == kShortType && tiff.number(entry + 4, 4) == 1;
    return one_short && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

bool is_exif(std::span<const std::byte> block) { return begins_with(block, kExifPrefix); }

int exif_orientation(std::span<const std::byte> block) {
  if (is_exif(block)) block = block.subspan(kExifPrefix.size());
  if (begins_with(block, {"II*\0", 4})) return orientation_in_directory(TiffBlock(block, false));
  if (begins_with(block, {"MM\0*", 4})) return orientation_in_directory(TiffBlock(block, true));
  return 1;
}

}  // namespace quaver::media
