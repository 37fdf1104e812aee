// Code points in UTF-8, and the character properties that Python's str methods look at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quaver::jinja {

// Decodes the code point at `i` and moves `i` past it. A byte that is not valid UTF-8 gives 0xDC00 + byte, as
// Python's surrogateescape does.
char32_t utf8_next(std::string_view s, size_t& i);
void utf8_append(std::string& out, char32_t c);
size_t utf8_length(std::string_view s);
// Byte position of code point number `n`, or the end.
size_t utf8_offset(std::string_view s, size_t n);
std::vector<std::string_view> utf8_split(std::string_view s);

bool is_space(char32_t c);       // str.isspace, and \s in regular expressions
bool is_line_break(char32_t c);  // where str.splitlines cuts
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);

std::string to_upper(std::string_view s);
std::string to_lower(std::string_view s);
std::string to_casefold(std::string_view s);
std::string to_title(std::string_view s);        // str.title
std::string to_capitalized(std::string_view s);  // str.capitalize
std::string swap_case(std::string_view s);

// \n, \x1b, é, \U0001f600: as repr() writes what it cannot print.
void append_escape(std::string& out, char32_t c);

}  // namespace quaver::jinja
