// PNG chunks by hand, right or wrong.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

#include "base/cat.h"

namespace quaver::testing {

inline std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

inline std::string png_chunk(std::string_view kind, std::string_view data) {
  const std::string body = cat(kind, data);
  const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
  return cat(big_endian(static_cast<uint32_t>(data.size())), body,
             big_endian(static_cast<uint32_t>(crc32(0, bytes, static_cast<uInt>(body.size())))));
}

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1A\n";

// 8-bit RGB.
inline std::string png_header(uint32_t width, uint32_t height) {
  return cat(kPngSignature,
             png_chunk("IHDR", cat(big_endian(width), big_endian(height), std::string("\x08\x02\0\0\0", 5))));
}

}  // namespace quaver::testing
