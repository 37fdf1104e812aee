// Unicode facts from utf8proc.
#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void append_decomposed(std::vector<utf8proc_int32_t>& out, char32_t c, bool compatibility) {
  constexpr size_t kLongest = 18;  // U+FDFA, the longest of all decompositions
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  const size_t start = out.size();
  out.resize(start + kLongest);
  int boundary = 0;
  const auto length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out.data() + start, kLongest,
                                              static_cast<utf8proc_option_t>(options), &boundary);
  require(length >= 0 && static_cast<size_t>(length) <= kLongest, ErrorKind::kInternal,
          "utf8proc can't decompose U+", static_cast<uint32_t>(c));
  out.resize(start + static_cast<size_t>(length));
}

// utf8proc's own reordering is quadratic in the length of a run of marks.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<ptrdiff_t>(i), text.begin() + static_cast<ptrdiff_t>(end),
                     [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

}  // namespace

bool is_whitespace(char32_t c) {
  if ((c >= 9 && c <= 13) || c == 0x85) return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_control(char32_t c) { return category(c) >= UTF8PROC_CATEGORY_CC; }

void append_lowercase(std::string& out, char32_t c) {
  if (c == 0x130)  // the one lower case of two characters that no context governs
    out.append("i\u0307");
  else
    utf8_append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::string normalize(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (size_t i = 0; i < text.size();) append_decomposed(characters, utf8_next(text, i), form.compatibility);
  order_marks(characters);
  if (form.composed) {
    const auto length =
        utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    require(length >= 0, ErrorKind::kInternal, "utf8proc can't compose a text");
    characters.resize(static_cast<size_t>(length));
  }
  std::string out;
  out.reserve(text.size());
  for (const auto c : characters) utf8_append(out, static_cast<char32_t>(c));
  return out;
}

size_t grapheme_end(std::string_view text, size_t position) {
  utf8proc_int32_t state = 0;
  auto previous = static_cast<utf8proc_int32_t>(utf8_next(text, position));
  while (position < text.size()) {
    size_t next = position;
    const auto current = static_cast<utf8proc_int32_t>(utf8_next(text, next));
    if (utf8proc_grapheme_break_stateful(previous, current, &state)) break;
    previous = current;
    position = next;
  }
  return position;
}

}  // namespace quaver::text
