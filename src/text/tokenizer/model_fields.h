// Reads the fields that several kinds of tokenizer component share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer/vocabulary.h"

namespace quaver::text {

// The object "vocab" of a model: spelling -> id. Errors are Error(kBadFile) beginning with `what`.
Vocabulary read_vocabulary(const json& spec, std::string_view what);

// Absent and null give nothing.
std::optional<std::string> optional_text(const json& spec, const char* key, std::string_view what);

// A text of exactly one character.
char32_t read_character(const json& spec, const char* key, std::string_view what);

// A count of at most `limit`.
size_t read_count(const json& spec, const char* key, size_t fallback, size_t limit, std::string_view what);

// A whole number from 0 to `limit`, or nothing.
std::optional<size_t> whole_number(const json& value, size_t limit);

// The string "type", or Error(kBadFile).
std::string read_type(const json& spec, std::string_view what);

}  // namespace quaver::text
