// Reading and searching of SentencePiece's precompiled character map.
#include "text/tokenizer/charsmap.h"

#include <cstring>

#include "base/base64.h"
#include "base/error.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// A unit of a darts-clone double array.
bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap Charsmap::from_base64(std::string_view encoded, std::string_view what) {
  const auto bytes = base64_decode(encoded);
  require(bytes.has_value(), ErrorKind::kBadFile, what, ": key 'precompiled_charsmap' is not base64");
  return from_bytes(*bytes, what);
}

Charsmap Charsmap::from_bytes(std::span<const std::byte> bytes, std::string_view what) {
  Charsmap map;
  if (bytes.empty()) return map;
  uint32_t trie_bytes = 0;
  require(bytes.size() >= sizeof trie_bytes, ErrorKind::kBadFile, what, ": the character map has ",
          bytes.size(), " bytes");
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  const size_t rest = bytes.size() - sizeof trie_bytes;
  require(trie_bytes <= rest && trie_bytes % 4 == 0, ErrorKind::kBadFile, what,
          ": the character map's trie has ", trie_bytes, " bytes of ", rest);
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), bytes.data() + sizeof trie_bytes, trie_bytes);
  map.replacements_.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof trie_bytes + trie_bytes,
                           rest - trie_bytes);
  require(utf8_valid(map.replacements_), ErrorKind::kBadFile, what,
          ": the character map's replacements are not UTF-8");
  return map;
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  uint32_t position = offset(units_[0]);
  for (const char c : text) {
    const uint32_t byte = static_cast<uint8_t>(c);
    position ^= byte;
    if (byte == 0 || position >= units_.size()) return std::nullopt;
    const uint32_t unit = units_[position];
    if (label(unit) != byte) return std::nullopt;
    position ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (position >= units_.size()) return std::nullopt;
    const size_t start = value(units_[position]);
    if (start >= replacements_.size()) return std::nullopt;
    // A replacement that begins inside a character would break the text.
    if ((replacements_[start] & 0xC0) == 0x80) return std::nullopt;
    return std::string_view(replacements_).substr(start, replacements_.find('\0', start) - start);
  }
  return std::nullopt;
}

}  // namespace quaver::text
