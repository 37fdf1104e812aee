// Both directions through tables.
#include "base/base64.h"

#include <array>
#include <cstdint>

namespace quaver {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint32_t kNoDigit = 0xFF;  // has bits that no digit has

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<uint8_t>(i);
  return values;
}();

uint32_t value_of(char digit) { return kValues[static_cast<uint8_t>(digit)]; }

}  // namespace

std::string base64_encode(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? std::to_integer<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::vector<std::byte>> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t pads = i + 4 == text.size() ? padding : 0;
    uint32_t bits = 0, seen = 0;
    for (size_t k = 0; k < 4; ++k) {
      const uint32_t value = k < 4 - pads ? value_of(text[i + k]) : 0;
      seen |= value;
      bits = bits << 6 | value;
    }
    const bool padded_with_zeros = (bits & ((uint32_t{1} << 8 * pads) - 1)) == 0;
    if (seen > 63 || !padded_with_zeros) return std::nullopt;
    for (size_t k = 0; k < 3 - pads; ++k)
      bytes.push_back(static_cast<std::byte>(bits >> (16 - 8 * k) & 0xFF));
  }
  return bytes;
}

}  // namespace quaver
