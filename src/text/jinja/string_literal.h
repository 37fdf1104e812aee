// Escapes inside string literals, and Python's repr of a string.
#pragma once

#include <string>
#include <string_view>

namespace quaver::jinja {

// The text of a literal without its quotes. On a bad escape `error` says what is wrong.
std::string unescape(std::string_view body, std::string& error);

std::string string_repr(std::string_view s);

}  // namespace quaver::jinja
