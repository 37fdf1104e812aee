// Base64 as RFC 4648, section 4 has it: the standard alphabet, padded.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quaver {

std::string base64_encode(std::span<const std::byte> bytes);

// Nothing unless the text is what base64_encode makes of some bytes: groups of four, '=' at the very end
// alone, no other character, bits that pad are zero.
std::optional<std::vector<std::byte>> base64_decode(std::string_view text);

}  // namespace quaver
