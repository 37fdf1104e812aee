// Unicode properties, case and normal forms that tokenizers use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quaver::text {

bool is_whitespace(char32_t c);   // the White_Space property
bool is_punctuation(char32_t c);  // general category P, or ASCII punctuation, symbols included
bool is_numeric(char32_t c);      // general category N
bool is_mark(char32_t c);         // general category M
bool is_nonspacing_mark(char32_t c);
bool is_control(char32_t c);  // general category C but for what is not assigned

// The full, context-free lower case mapping, as Rust's char::to_lowercase.
void append_lowercase(std::string& out, char32_t c);

struct NormalForm {
  bool compatibility;  // the K forms
  bool composed;       // the C forms
};
// Linear in the length but for the sorting of runs of marks. Precondition: valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

// Where the extended grapheme cluster that begins at `position` ends. Precondition: position < text.size().
size_t grapheme_end(std::string_view text, size_t position);

}  // namespace quaver::text
