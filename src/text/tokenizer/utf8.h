// UTF-8 one character at a time, and the repair of broken UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quaver::text {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// Length of the character that starts with this byte. Precondition: valid UTF-8.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `position`, which moves past it. Precondition: valid UTF-8 and position < text.size().
char32_t utf8_next(std::string_view text, size_t& position);

void utf8_append(std::string& out, char32_t character);

// What the bytes at `position` are: a whole character, a beginning that further bytes could complete (only at
// the end of `text`), or neither.
enum class Utf8Status { kWhole, kIncomplete, kBroken };
struct Utf8Scan {
  Utf8Status status;
  size_t length;  // of the character; else of the maximal subpart that one U+FFFD stands for
};
// Precondition: position < text.size(); any bytes. Unicode 15, section 3.9, table 3-7 and "maximal subparts".
Utf8Scan utf8_scan(std::string_view text, size_t position);

bool utf8_valid(std::string_view text);

// Each maximal subpart of an ill-formed sequence becomes one U+FFFD, as Python's errors="replace" and Rust's
// from_utf8_lossy do.
std::string utf8_repair(std::string_view bytes);

}  // namespace quaver::text
