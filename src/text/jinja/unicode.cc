#include "text/jinja/unicode.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/cat.h"
#include "text/jinja/unicode_tables.h"

namespace quaver::jinja {
namespace {

using Mapping = std::pair<std::span<const CaseRun>, std::span<const CaseText>>;

bool in_ranges(std::span<const CodeRange> ranges, char32_t c) {
  auto it = std::upper_bound(ranges.begin(), ranges.end(), c,
                             [](char32_t x, const CodeRange& r) { return x < r.first; });
  return it != ranges.begin() && c <= std::prev(it)->last;
}

void append_mapped(std::string& out, const Mapping& mapping, char32_t c) {
  const auto& [runs, texts] = mapping;
  auto text = std::lower_bound(texts.begin(), texts.end(), c,
                               [](const CaseText& t, char32_t x) { return t.from < x; });
  if (text != texts.end() && text->from == c) {
    out += text->to;
    return;
  }
  auto run =
      std::upper_bound(runs.begin(), runs.end(), c, [](char32_t x, const CaseRun& r) { return x < r.first; });
  if (run != runs.begin()) {
    --run;
    if (c <= run->last && (c - run->first) % static_cast<char32_t>(run->step) == 0)
      c = static_cast<char32_t>(static_cast<int32_t>(c) + run->delta);
  }
  utf8_append(out, c);
}

const Mapping kUpper{{kToUpper, kToUpperCount}, {kToUpperText, kToUpperTextCount}};
const Mapping kLower{{kToLower, kToLowerCount}, {kToLowerText, kToLowerTextCount}};
const Mapping kTitle{{kToTitle, kToTitleCount}, {kToTitleText, kToTitleTextCount}};
const Mapping kFold{{kToFold, kToFoldCount}, {kToFoldText, kToFoldTextCount}};

std::string map_all(std::string_view s, const Mapping& mapping) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) append_mapped(out, mapping, utf8_next(s, i));
  return out;
}

constexpr char32_t kCapitalSigma = 0x3a3, kFinalSigma = 0x3c2;

bool ignored_for_sigma(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xb7 || c == 0x2019 ||
         (c >= 0x300 && c <= 0x36f);
}

// Lowers one character after the other. A capital sigma after a cased letter and not before one becomes the
// final form.
class Lowering {
 public:
  Lowering(std::string_view s, std::string& out) : s_(s), out_(out) {}
  // `c` ends before byte `end`.
  void append(char32_t c, size_t end) {
    bool final_sigma = c == kCapitalSigma && after_cased_ && !before_cased(end);
    if (final_sigma)
      utf8_append(out_, kFinalSigma);
    else
      append_mapped(out_, kLower, c);
    skip(c);
  }
  void skip(char32_t c) {
    if (!ignored_for_sigma(c)) after_cased_ = is_cased(c);
  }

 private:
  bool before_cased(size_t i) const {
    while (i < s_.size()) {
      char32_t c = utf8_next(s_, i);
      if (!ignored_for_sigma(c)) return is_cased(c);
    }
    return false;
  }
  std::string_view s_;
  std::string& out_;
  bool after_cased_ = false;
};

// Walks `s`; `choose(c, first)` tells whether to apply `mapping` to a character, else it is lowered.
template <class Choose>
std::string lower_except(std::string_view s, const Mapping& mapping, Choose choose) {
  std::string out;
  out.reserve(s.size());
  Lowering lowering(s, out);
  for (size_t i = 0; i < s.size();) {
    bool first = i == 0;
    char32_t c = utf8_next(s, i);
    if (choose(c, first)) {
      append_mapped(out, mapping, c);
      lowering.skip(c);
    } else {
      lowering.append(c, i);
    }
  }
  return out;
}

}  // namespace

char32_t utf8_next(std::string_view s, size_t& i) {
  auto byte = [&](size_t k) { return k < s.size() ? static_cast<uint8_t>(s[k]) : 0; };
  auto tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  uint8_t b = byte(i);
  if (b < 0x80) return s[i++];
  if (b >= 0xC2 && b < 0xE0 && tail(i + 1)) {
    i += 2;
    return static_cast<char32_t>((b & 0x1F) << 6 | (byte(i - 1) & 0x3F));
  }
  if (b >= 0xE0 && b < 0xF0 && tail(i + 1) && tail(i + 2)) {
    char32_t c = (b & 0x0Fu) << 12 | (byte(i + 1) & 0x3Fu) << 6 | (byte(i + 2) & 0x3Fu);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return i += 3, c;
  }
  if (b >= 0xF0 && b < 0xF5 && tail(i + 1) && tail(i + 2) && tail(i + 3)) {
    char32_t c =
        (b & 0x07u) << 18 | (byte(i + 1) & 0x3Fu) << 12 | (byte(i + 2) & 0x3Fu) << 6 | (byte(i + 3) & 0x3Fu);
    if (c >= 0x10000 && c < 0x110000) return i += 4, c;
  }
  ++i;
  return 0xDC00u + b;
}

void utf8_append(std::string& out, char32_t c) {
  if (c >= 0xDC80 && c <= 0xDCFF) {
    out += static_cast<char>(c - 0xDC00);  // the stray byte again
  } else if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t utf8_length(std::string_view s) {
  size_t n = 0;
  for (size_t i = 0; i < s.size(); ++n) utf8_next(s, i);
  return n;
}

size_t utf8_offset(std::string_view s, size_t n) {
  size_t i = 0;
  while (n-- && i < s.size()) utf8_next(s, i);
  return i;
}

std::vector<std::string_view> utf8_split(std::string_view s) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < s.size();) {
    size_t start = i;
    utf8_next(s, i);
    out.push_back(s.substr(start, i - start));
  }
  return out;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) { return !in_ranges({kUnprintable, kUnprintableCount}, c); }
bool is_alpha(char32_t c) { return in_ranges({kAlpha, kAlphaCount}, c); }
bool is_decimal(char32_t c) { return in_ranges({kDecimal, kDecimalCount}, c); }
bool is_digit(char32_t c) { return in_ranges({kDigit, kDigitCount}, c); }
bool is_numeric(char32_t c) { return in_ranges({kNumeric, kNumericCount}, c); }
bool is_lower(char32_t c) { return in_ranges({kLowerCase, kLowerCaseCount}, c); }
bool is_upper(char32_t c) { return in_ranges({kUpperCase, kUpperCaseCount}, c); }
bool is_title(char32_t c) { return in_ranges({kTitleCase, kTitleCaseCount}, c); }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

std::string to_upper(std::string_view s) { return map_all(s, kUpper); }
std::string to_casefold(std::string_view s) { return map_all(s, kFold); }

std::string to_lower(std::string_view s) {
  return lower_except(s, kLower, [](char32_t, bool) { return false; });
}

std::string to_title(std::string_view s) {
  bool in_word = false;
  return lower_except(s, kTitle, [&](char32_t c, bool) {
    bool starts = !in_word;
    in_word = is_cased(c);
    return starts;
  });
}

std::string to_capitalized(std::string_view s) {
  return lower_except(s, kTitle, [](char32_t, bool first) { return first; });
}

std::string swap_case(std::string_view s) {
  return lower_except(s, kUpper, [](char32_t c, bool) { return !is_upper(c); });
}

void append_escape(std::string& out, char32_t c) {
  if (c == '\n')
    out += "\\n";
  else if (c == '\r')
    out += "\\r";
  else if (c == '\t')
    out += "\\t";
  else {
    int digits = c < 0x100 ? 2 : (c < 0x10000 ? 4 : 8);
    out += digits == 2 ? "\\x" : (digits == 4 ? "\\u" : "\\U");
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[c >> shift & 15];
  }
}

}  // namespace quaver::jinja
