// Character classes of Oniguruma in PCRE2's spelling.
#include "text/tokenizer/oniguruma_class.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

constexpr int kMaxNesting = 50;

using Row = std::pair<std::string_view, std::string_view>;

// Names that PCRE2 lacks or means something else by, lower case and without separators.
constexpr std::array kNames = {
    Row{"letter", "\\p{L}"},
    Row{"mark", "\\p{M}"},
    Row{"number", "\\p{N}"},
    Row{"punctuation", "\\p{P}"},
    Row{"symbol", "\\p{S}"},
    Row{"separator", "\\p{Z}"},
    Row{"other", "\\p{C}"},
    Row{"uppercaseletter", "\\p{Lu}"},
    Row{"lowercaseletter", "\\p{Ll}"},
    Row{"titlecaseletter", "\\p{Lt}"},
    Row{"casedletter", "\\p{L&}"},
    Row{"modifierletter", "\\p{Lm}"},
    Row{"otherletter", "\\p{Lo}"},
    Row{"nonspacingmark", "\\p{Mn}"},
    Row{"spacingmark", "\\p{Mc}"},
    Row{"enclosingmark", "\\p{Me}"},
    Row{"decimalnumber", "\\p{Nd}"},
    Row{"letternumber", "\\p{Nl}"},
    Row{"othernumber", "\\p{No}"},
    Row{"connectorpunctuation", "\\p{Pc}"},
    Row{"dashpunctuation", "\\p{Pd}"},
    Row{"openpunctuation", "\\p{Ps}"},
    Row{"closepunctuation", "\\p{Pe}"},
    Row{"initialpunctuation", "\\p{Pi}"},
    Row{"finalpunctuation", "\\p{Pf}"},
    Row{"otherpunctuation", "\\p{Po}"},
    Row{"mathsymbol", "\\p{Sm}"},
    Row{"currencysymbol", "\\p{Sc}"},
    Row{"modifiersymbol", "\\p{Sk}"},
    Row{"othersymbol", "\\p{So}"},
    Row{"spaceseparator", "\\p{Zs}"},
    Row{"lineseparator", "\\p{Zl}"},
    Row{"paragraphseparator", "\\p{Zp}"},
    Row{"control", "\\p{Cc}"},
    Row{"format", "\\p{Cf}"},
    Row{"surrogate", "\\p{Cs}"},
    Row{"privateuse", "\\p{Co}"},
    Row{"unassigned", "\\p{Cn}"},
    Row{"alnum", "\\p{Alphabetic}\\p{Nd}"},
    Row{"alpha", "\\p{Alphabetic}"},
    Row{"ascii", "\\x00-\\x7F"},
    Row{"blank", "\\p{Zs}\\t"},
    Row{"cntrl", "\\p{Cc}"},
    Row{"digit", "\\p{Nd}"},
    Row{"lower", "\\p{Lowercase}"},
    Row{"punct", "\\p{P}"},
    Row{"space", "\\p{White_Space}"},
    Row{"upper", "\\p{Uppercase}"},
    Row{"xdigit", "0-9A-Fa-f"},
    Row{"word", kWordItems},
};

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '_' && c != '-') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  return out;
}

bool pcre2_accepts(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

CharacterSet items_set(std::string items, bool negated) {
  if (!negated) return {std::move(items), ""};
  return {"", cat("[^", items, "]")};
}

// One bracket, taken apart: && separates the parts, and each part is a union.
struct Part {
  std::string items;
  std::vector<std::string> nested;

  void add(const CharacterSet& set) {
    if (set.items.empty())
      nested.push_back(set.expression);
    else
      items += set.items;
  }
  std::string expression() const {
    if (nested.empty()) return items.empty() ? "(?!)" : cat("[", items, "]");
    std::string out = "(?:";
    if (!items.empty()) out += cat("[", items, "]|");
    for (size_t i = 0; i < nested.size(); ++i) out += cat(i ? "|" : "", nested[i]);
    return out += ")";
  }
};

std::string compose(const std::vector<Part>& parts, bool negated) {
  if (parts.size() == 1 && parts[0].nested.empty() && !parts[0].items.empty())
    return cat(negated ? "[^" : "[", parts[0].items, "]");
  std::string all = "(?:";
  for (size_t i = 0; i + 1 < parts.size(); ++i) all += cat("(?=", parts[i].expression(), ")");
  all += cat(parts.back().expression(), ")");
  return negated ? cat("(?:(?!", all, ")(?s:.))") : all;
}

class BracketReader {
 public:
  BracketReader(std::string_view pattern, size_t& position, std::string_view what)
      : pattern_(pattern), position_(position), what_(what) {}

  std::string read(int depth) {
    require(depth < kMaxNesting, ErrorKind::kBadFile, what_, ": a character class nests too deeply");
    ++position_;  // [
    const bool negated = take('^');
    std::vector<Part> parts(1);
    if (take(']')) parts[0].items += "\\]";  // a ] in the first place is a character
    while (!take(']')) {
      require(position_ < pattern_.size(), ErrorKind::kBadFile, what_, ": a character class of the pattern '",
              shown(pattern_), "' has no end");
      if (pattern_.substr(position_, 2) == "&&") {
        position_ += 2;
        parts.emplace_back();
      } else {
        read_item(parts.back(), depth);
      }
    }
    return compose(parts, negated);
  }

 private:
  bool take(char c) {
    if (position_ >= pattern_.size() || pattern_[position_] != c) return false;
    ++position_;
    return true;
  }

  void read_item(Part& part, int depth) {
    if (pattern_[position_] == '[') {
      if (read_posix(part)) return;
      part.nested.push_back(read(depth + 1));
    } else if (pattern_[position_] == '\\') {
      part.add(read_escape());
    } else {
      const size_t length = utf8_length(pattern_[position_]);
      part.items += pattern_.substr(position_, length);
      position_ += length;
    }
  }

  CharacterSet read_escape() {
    CharacterSet set;
    if (position_ + 1 < pattern_.size() && escape_set(pattern_[position_ + 1], true, set)) {
      position_ += 2;
      return set;
    }
    return rewrite_escape(pattern_, position_, what_);
  }

  bool read_posix(Part& part) {
    if (pattern_.substr(position_, 2) != "[:") return false;
    const size_t end = pattern_.find(":]", position_ + 2);
    if (end == std::string_view::npos) return false;
    std::string_view name = pattern_.substr(position_ + 2, end - position_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.empty() || name.size() > 10 || name.find_first_of("[]\\") != std::string_view::npos)
      return false;
    // The one name that brackets and properties disagree on.
    part.add(name == "punct" ? items_set("\\p{P}\\p{S}", negated) : property_set(name, negated));
    position_ = end + 2;
    return true;
  }

  std::string_view pattern_;
  size_t& position_;
  std::string_view what_;
};

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// \p{name}, \P{name}, \p{^name}.
CharacterSet rewrite_property(std::string_view pattern, size_t& position, std::string_view what) {
  bool negated = pattern[position + 1] == 'P';
  const size_t end = pattern.find('}', position);
  require(pattern.substr(position + 2, 1) == "{" && end != std::string_view::npos, ErrorKind::kBadFile, what,
          ": the pattern '", shown(pattern), "' has a \\p without {name}");
  std::string_view name = pattern.substr(position + 3, end - position - 3);
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  position = end + 1;
  return property_set(name, negated);
}

}  // namespace

CharacterSet property_set(std::string_view name, bool negated) {
  const std::string key = folded(name);
  for (const auto& [known, items] : kNames)
    if (key == known) return items_set(std::string(items), negated);
  if (key == "graph")
    return {"",
            negated ? "[\\p{White_Space}\\p{Cc}\\p{Cn}\\p{Cs}]" : "[^\\p{White_Space}\\p{Cc}\\p{Cn}\\p{Cs}]"};
  if (key == "print") return {"", negated ? "[\\p{Cc}\\p{Cn}\\p{Cs}]" : "[^\\p{Cc}\\p{Cn}\\p{Cs}]"};
  const std::string letter = negated ? "\\P{" : "\\p{";
  // A script's bare name would mean script extensions to PCRE2, the script proper to Oniguruma.
  if (pcre2_accepts(cat("\\p{sc:", key, "}"))) return {cat(letter, "sc:", key, "}"), ""};
  return {cat(letter, name, "}"), ""};
}

bool escape_set(char letter, bool in_bracket, CharacterSet& set) {
  const bool negated = letter >= 'A' && letter <= 'Z';
  switch (letter | 0x20) {
    case 's':
      set = {negated ? "\\P{White_Space}" : "\\p{White_Space}", ""};
      return true;
    case 'd':
      set = {negated ? "\\P{Nd}" : "\\p{Nd}", ""};
      return true;
    case 'w':
      set = items_set(std::string(in_bracket ? kWordItems : kWordEscapeItems), negated);
      return true;
    case 'h':
      set = items_set("0-9A-Fa-f", negated);
      return true;
    default:
      return false;
  }
}

std::string rewrite_bracket(std::string_view pattern, size_t& position, std::string_view what) {
  return BracketReader(pattern, position, what).read(0);
}

CharacterSet rewrite_escape(std::string_view pattern, size_t& position, std::string_view what) {
  require(position + 1 < pattern.size(), ErrorKind::kBadFile, what, ": the pattern '", shown(pattern),
          "' ends in a backslash");
  const char letter = pattern[position + 1];
  if (letter == 'p' || letter == 'P') return rewrite_property(pattern, position, what);
  if (letter == 'v') {
    position += 2;
    return {"\\x0B", ""};
  }
  if (letter == 'u' && position + 5 < pattern.size() &&
      std::all_of(pattern.begin() + static_cast<ptrdiff_t>(position) + 2,
                  pattern.begin() + static_cast<ptrdiff_t>(position) + 6, is_hex)) {
    const std::string digits(pattern.substr(position + 2, 4));
    position += 6;
    return {cat("\\x{", digits, "}"), ""};
  }
  const size_t length = 1 + utf8_length(letter);
  const std::string copied(pattern.substr(position, length));
  position += length;
  return {copied, ""};
}

}  // namespace quaver::text
