// GPT-2's byte table, built at compile time.
#include "text/tokenizer/byte_alphabet.h"

#include <array>

#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kNumOthers = 68;

struct Tables {
  std::array<char16_t, 256> character{};
  std::array<int16_t, 0x100 + kNumOthers> byte{};
  constexpr Tables() {
    for (auto& b : byte) b = -1;
    char16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const char16_t c = stands_for_itself(b) ? static_cast<char16_t>(b) : next++;
      character[static_cast<size_t>(b)] = c;
      byte[c] = static_cast<int16_t>(b);
    }
  }
};
constexpr Tables kTables;

}  // namespace

char32_t byte_to_character(uint8_t byte) { return kTables.character[byte]; }

std::optional<uint8_t> character_to_byte(char32_t character) {
  if (character >= kTables.byte.size() || kTables.byte[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kTables.byte[character]);
}

void append_byte_level(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) utf8_append(out, byte_to_character(static_cast<uint8_t>(byte)));
}

void append_bytes_of_token(std::string& out, std::string_view token) {
  const size_t start = out.size();
  for (size_t i = 0; i < token.size();) {
    const auto byte = character_to_byte(utf8_next(token, i));
    if (!byte) {
      out.resize(start);
      out.append(token);
      return;
    }
    out.push_back(static_cast<char>(*byte));
  }
}

}  // namespace quaver::text
