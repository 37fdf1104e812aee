// Character classes of Oniguruma patterns: properties, escapes that name sets, brackets.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/cat.h"

namespace quaver::text {

inline constexpr std::string_view kWordItems = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// What \w means outside brackets: of the other numerals, those of Latin-1.
inline constexpr std::string_view kWordEscapeItems =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

// A set of characters in PCRE2's spelling: as an item of a bracket, or, when no bracket can hold it, as an
// expression of its own that matches one character.
struct CharacterSet {
  std::string items;       // goes between [ and ]
  std::string expression;  // used when `items` is empty
  std::string as_expression() const { return items.empty() ? expression : cat("[", items, "]"); }
};

// The set of \p{name}; `negated` for \P and \p{^.
CharacterSet property_set(std::string_view name, bool negated);

// The set of \s \S \w \W \d \D \h \H; false for another letter.
bool escape_set(char letter, bool in_bracket, CharacterSet& set);

// Rewrites the bracket that begins at `position`, which moves past it. Throws Error(kBadFile) beginning with
// `what` when it does not end or nests too deeply.
std::string rewrite_bracket(std::string_view pattern, size_t& position, std::string_view what);

// Rewrites an escape that means one character or a property (\p, \u, \v, \x), else copies two characters.
// `position` stands on the backslash and moves past the escape.
CharacterSet rewrite_escape(std::string_view pattern, size_t& position, std::string_view what);

}  // namespace quaver::text
