// The tokens <0x00> to <0xFF> that stand for single bytes in vocabularies with byte fallback.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace quaver::text {

std::string byte_token(uint8_t byte);  // "<0x0A>"

// The byte of a token so spelled; either case of digit.
std::optional<uint8_t> byte_of_token(std::string_view token);

// Ids of the 256 byte tokens, -1 where the vocabulary lacks one.
std::vector<int32_t> byte_token_ids(const Vocabulary& vocabulary);

}  // namespace quaver::text
