// Numbers as text, in the styles that % and str.format share; and padding.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/format.h"
#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

constexpr int kMaxPrecision = 400;

std::string group_digits(std::string digits, char separator, size_t size) {
  for (size_t i = digits.size(); i > size;) digits.insert(i -= size, 1, separator);
  return digits;
}

std::string with_sign(bool negative, char sign, std::string body) {
  if (negative) return "-" + body;
  return sign == '-' ? body : sign + body;
}

std::string digits_of(uint64_t magnitude, unsigned base, bool upper) {
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do out += digits[magnitude % base];
  while (magnitude /= base);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::string format_integer(int64_t i, const NumberStyle& style) {
  uint64_t magnitude = i < 0 ? ~static_cast<uint64_t>(i) + 1 : static_cast<uint64_t>(i);
  char type = style.type ? style.type : 'd';
  char lower = static_cast<char>(type | 0x20);
  unsigned base = lower == 'x' ? 16 : (lower == 'o' ? 8 : (lower == 'b' ? 2 : 10));
  std::string digits = digits_of(magnitude, base, type == 'X');
  if (style.precision > kMaxPrecision) fault("precision is more than ", kMaxPrecision);
  if (style.precision > static_cast<int>(digits.size()))
    digits.insert(0, static_cast<size_t>(style.precision) - digits.size(), '0');
  if (style.grouping) digits = group_digits(digits, style.grouping, base == 10 ? 3 : 4);
  if (style.alternate && base != 10) digits = std::string("0") + type + digits;
  return with_sign(i < 0, style.sign, digits);
}

std::string format_float(double d, const NumberStyle& style) {
  if (style.precision > kMaxPrecision) fault("precision is more than ", kMaxPrecision);
  bool negative = std::signbit(d) && !std::isnan(d), percent = style.type == '%';
  double magnitude = std::fabs(d) * (percent ? 100 : 1);
  std::string body;
  if (!style.type && style.precision < 0) {
    body = float_repr(magnitude);
  } else {
    char type = percent ? 'f' : (style.type ? style.type : 'g');
    std::string pattern = cat("%", style.alternate ? "#" : "", ".*", type);
    char buffer[1024];
    int n = std::snprintf(buffer, sizeof buffer, pattern.c_str(), style.precision < 0 ? 6 : style.precision,
                          magnitude);
    body.assign(buffer, static_cast<size_t>(n));
    bool plain = body.find_first_of(".en") == std::string::npos;
    if (!style.type && plain) body += ".0";
  }
  if (style.grouping) {
    size_t whole = std::min(body.find_first_not_of("0123456789"), body.size());
    body = group_digits(body.substr(0, whole), style.grouping, 3) + body.substr(whole);
  }
  return with_sign(negative, style.sign, percent ? body + "%" : body);
}

std::string pad(std::string_view body, std::string_view fill, char align, size_t width) {
  size_t length = utf8_length(body);
  if (length >= width) return std::string(body);
  size_t room = width - length, left = align == '<' ? 0 : (align == '^' ? room / 2 : room);
  size_t sign = align == '=' && !body.empty() && (body[0] == '-' || body[0] == '+' || body[0] == ' ') ? 1 : 0;
  std::string out(body.substr(0, sign));
  grow(out, left, fill);
  grow(out, body.substr(sign));
  grow(out, room - left, fill);
  return out;
}

std::string escape_html(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&#34;";
    else
      out += c;
  }
  charge(out.size() / 8);
  return out;
}

}  // namespace quaver::jinja
