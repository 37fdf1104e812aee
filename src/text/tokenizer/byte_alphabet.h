// The printable stand-ins for the 256 bytes that byte-level BPE uses (GPT-2's table).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quaver::text {

// Printable Latin-1 stands for itself, every other byte for U+0100 + its rank among those others.
char32_t byte_to_character(uint8_t byte);
std::optional<uint8_t> character_to_byte(char32_t character);

// Appends each byte's stand-in.
void append_byte_level(std::string& out, std::string_view bytes);

// Appends the bytes that a token stands for; a token with any other character stands for its own UTF-8.
void append_bytes_of_token(std::string& out, std::string_view token);

}  // namespace quaver::text
