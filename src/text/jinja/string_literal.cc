#include "text/jinja/string_literal.h"

#include <cstdint>

#include "base/cat.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Appends the code point of \x, \u or \U with `digits` hexadecimal digits at `i`.
std::string append_hex(std::string& out, std::string_view body, size_t& i, int digits) {
  uint32_t c = 0;
  for (int k = 0; k < digits; ++k, ++i) {
    int v = i < body.size() ? hex_value(body[i]) : -1;
    if (v < 0)
      return "truncated \\" + std::string(digits == 2 ? "xXX" : (digits == 4 ? "uXXXX" : "UXXXXXXXX")) +
             " escape";
    c = c * 16 + static_cast<uint32_t>(v);
  }
  if (c > 0x10FFFF) return "illegal Unicode character";
  if (c >= 0xD800 && c < 0xE000) return cat("\\u escape of a lone surrogate is not supported");
  utf8_append(out, c);
  return "";
}

void append_octal(std::string& out, std::string_view body, size_t& i) {
  char32_t c = 0;
  for (int k = 0; k < 3 && i < body.size() && body[i] >= '0' && body[i] <= '7'; ++k)
    c = c * 8 + static_cast<char32_t>(body[i++] - '0');
  utf8_append(out, c);
}

constexpr std::string_view kSimple = "abfnrtv\\'\"", kSimpleValue = "\a\b\f\n\r\t\v\\'\"";

// One escape; `i` stands after the backslash.
std::string append_escaped(std::string& out, std::string_view body, size_t& i) {
  char c = body[i++];
  if (size_t k = kSimple.find(c); k != kSimple.npos) {
    out += kSimpleValue[k];
  } else if (c == 'x') {
    return append_hex(out, body, i, 2);
  } else if (c == 'u') {
    return append_hex(out, body, i, 4);
  } else if (c == 'U') {
    return append_hex(out, body, i, 8);
  } else if (c >= '0' && c <= '7') {
    append_octal(out, body, --i);
  } else if (c == 'N') {
    return "malformed \\N character escape";
  } else if (c != '\n') {
    out += '\\';
    out += c;
  }
  return "";
}

}  // namespace

std::string unescape(std::string_view body, std::string& error) {
  std::string out;
  out.reserve(body.size());
  for (size_t i = 0; i < body.size() && error.empty();) {
    if (body[i] != '\\') {
      out += body[i++];
    } else if (++i == body.size()) {
      error = "\\ at end of string";
    } else if (body[i] & 0x80) {
      out += "\\";  // a non-ASCII character keeps its backslash
    } else {
      error = append_escaped(out, body, i);
    }
  }
  return out;
}

std::string string_repr(std::string_view s) {
  char quote = s.find('\'') != s.npos && s.find('"') == s.npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < s.size();) {
    size_t start = i;
    char32_t c = utf8_next(s, i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      out += s.substr(start, i - start);
    } else {
      append_escape(out, c);
    }
  }
  return out + quote;
}

}  // namespace quaver::jinja
