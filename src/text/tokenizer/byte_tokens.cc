// Spelling and reading of byte tokens.
#include "text/tokenizer/byte_tokens.h"

#include <charconv>

namespace quaver::text {

std::string byte_token(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::optional<uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* end = token.data() + 5;
  const auto result = std::from_chars(token.data() + 3, end, byte, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return byte;
}

std::vector<int32_t> byte_token_ids(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids(256, -1);
  for (int byte = 0; byte < 256; ++byte)
    ids[static_cast<size_t>(byte)] = vocabulary.find(byte_token(static_cast<uint8_t>(byte))).value_or(-1);
  return ids;
}

}  // namespace quaver::text
