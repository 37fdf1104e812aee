// Joins values into one string; keeps fmt and iostreams out of the other headers.
#pragma once

#include <charconv>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quaver {

namespace cat_internal {
inline void append(std::string& out, std::string_view text) { out.append(text); }
// Constrained, since a string literal would rather become a bool than a string_view.
template <std::same_as<bool> T>
void append(std::string& out, T value) {
  out.append(value ? "true" : "false");
}
template <std::same_as<char> T>
void append(std::string& out, T c) {
  out.push_back(c);
}
template <class T>
requires((std::integral<T> || std::floating_point<T>)&&!std::same_as<T, char> &&
         !std::same_as<T, bool>) void append(std::string& out, T value) {
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, static_cast<size_t>(result.ptr - buffer));  // the iterator form trips GCC 12 -Wrestrict
}
template <std::integral T>
void append(std::string& out, const std::vector<T>& values) {  // a shape: [2, 3]
  out.push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out.append(", ");
    append(out, values[i]);
  }
  out.push_back(']');
}
}  // namespace cat_internal

// cat("expected ", 3, ", got ", shape) -> "expected 3, got [2, 2]".
template <class... Args>
std::string cat(const Args&... args) {
  std::string out;
  (cat_internal::append(out, args), ...);
  return out;
}

}  // namespace quaver
