// Rewrites patterns from Oniguruma's dialect into PCRE2's: groups, repetitions, anchors.
#include "text/tokenizer/oniguruma_syntax.h"

#include <vector>

#include "base/error.h"
#include "text/tokenizer/oniguruma_class.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

struct Repetition {
  size_t length = 0;  // 0: there is none here
  std::string text;   // in PCRE2's spelling, with its lazy or possessive mark
};

class Rewriter {
 public:
  Rewriter(std::string_view pattern, std::string_view what) : pattern_(pattern), what_(what) {}

  std::string run() {
    groups_.push_back({});
    while (position_ < pattern_.size()) step();
    require(groups_.size() == 1, ErrorKind::kBadFile, what_, ": a group of the pattern '", shown(pattern_),
            "' has no end");
    out_.append(groups_.back().options, ')');
    return std::move(out_);
  }

 private:
  struct Group {
    size_t begin = 0;    // in out_
    size_t options = 0;  // groups of our own that stand for options in its middle
  };

  void step() {
    if (const Repetition repetition = read_repetition(); repetition.length) return repeat(repetition);
    const size_t begin = out_.size();
    switch (pattern_[position_]) {
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '[':
        out_ += rewrite_bracket(pattern_, position_, what_);
        break;
      case '\\':
        escape();
        break;
      case '|':
        out_ += pattern_[position_++];
        atom_ = kNoAtom;
        return;
      default: {
        const size_t length = utf8_length(pattern_[position_]);
        out_ += pattern_.substr(position_, length);
        position_ += length;
      }
    }
    atom_ = begin;
    repeated_ = false;
  }

  void escape() {
    const char letter = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
    CharacterSet set;
    if (escape_set(letter, false, set)) {
      out_ += set.as_expression();
      position_ += 2;
    } else if (letter == 'b' || letter == 'B') {
      const std::string_view word = kWordEscapeItems,
                             after = letter == 'b' ? "(?!" : "(?=", other = letter == 'b' ? "(?=" : "(?!";
      out_ += cat("(?:(?<=[", word, "])", after, "[", word, "])|(?<![", word, "])", other, "[", word, "]))");
      position_ += 2;
    } else if (letter == 'O') {
      out_ += "(?s:.)";
      position_ += 2;
    } else {
      const bool property = letter == 'p' || letter == 'P';
      const CharacterSet one = rewrite_escape(pattern_, position_, what_);
      out_ += property ? one.as_expression() : one.items;
    }
  }

  void open_group() {
    const size_t begin = out_.size();
    if (pattern_.substr(position_, 3) == "(?#") {
      const size_t end = pattern_.find(')', position_);
      require(end != std::string_view::npos, ErrorKind::kBadFile, what_, ": a comment of the pattern '",
              shown(pattern_), "' has no end");
      position_ = end + 1;
      return;
    }
    if (read_options(begin)) return;
    groups_.push_back({begin, 0});
    out_ += pattern_[position_++];
    if (position_ < pattern_.size() && pattern_[position_] == '?') {
      out_ += pattern_[position_++];
      // The rest of the opening, which holds characters that mean something else further on.
      while (position_ < pattern_.size() &&
             std::string_view("<=!>:~|").find(pattern_[position_]) != std::string_view::npos) {
        const char c = pattern_[position_];
        out_ += c;
        ++position_;
        if (c == ':' || c == '=' || c == '!' || c == '>') break;
        if (c == '<' && position_ < pattern_.size() && pattern_[position_] != '=' &&
            pattern_[position_] != '!')
          break;
      }
    }
    atom_ = kNoAtom;
  }

  // (?im-x) and (?im-x:...). Oniguruma's m is PCRE2's s, and an option in the middle of a group takes in all
  // of the rest of that group, alternatives too.
  bool read_options(size_t begin) {
    if (pattern_.substr(position_, 2) != "(?") return false;
    size_t at = position_ + 2;
    std::string letters;
    while (at < pattern_.size() && std::string_view("imx-").find(pattern_[at]) != std::string_view::npos)
      letters += pattern_[at] == 'm' ? 's' : pattern_[at], ++at;
    if (letters.empty() || at >= pattern_.size() || (pattern_[at] != ')' && pattern_[at] != ':'))
      return false;
    out_ += cat("(?", letters, ":");
    if (pattern_[at] == ')')
      ++groups_.back().options;
    else
      groups_.push_back({begin, 0});
    position_ = at + 1;
    atom_ = kNoAtom;
    return true;
  }

  void close_group() {
    require(groups_.size() > 1, ErrorKind::kBadFile, what_, ": the pattern '", shown(pattern_),
            "' closes a group that it did not open");
    out_.append(groups_.back().options + 1, ')');
    atom_ = groups_.back().begin;
    repeated_ = false;
    groups_.pop_back();
    ++position_;
  }

  Repetition read_repetition() const {
    const std::string_view rest = pattern_.substr(position_);
    const char first = rest[0];
    if (first == '*' || first == '+' || first == '?') {
      const bool marked = rest.size() > 1 && (rest[1] == '?' || rest[1] == '+');
      return {marked ? size_t{2} : size_t{1}, std::string(rest.substr(0, marked ? 2 : 1))};
    }
    return first == '{' ? read_interval(rest) : Repetition{};
  }

  // {n} {n,} {,n} {n,m}; other braces are characters. A + after it is a repetition of its own, and so is a ?
  // after {n}.
  static Repetition read_interval(std::string_view rest) {
    const size_t end = rest.find('}');
    if (end == std::string_view::npos) return {};
    const std::string_view inside = rest.substr(1, end - 1);
    const size_t comma = inside.find(',');
    const std::string_view low = inside.substr(0, comma);
    const std::string_view high = comma == std::string_view::npos ? low : inside.substr(comma + 1);
    const auto is_number = [](std::string_view s) {
      return s.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (!is_number(low) || !is_number(high) || (low.empty() && high.empty())) return {};
    const std::string_view least = low.empty() ? "0" : low;
    Repetition result{
        end + 1, comma == std::string_view::npos ? cat("{", least, "}") : cat("{", least, ",", high, "}")};
    if (comma != std::string_view::npos && rest.substr(end + 1, 1) == "?") {
      result.text += "?";
      ++result.length;
    }
    return result;
  }

  void repeat(const Repetition& repetition) {
    if (atom_ == kNoAtom) {  // at the beginning of a group: characters, for which PCRE2 has its own error
      out_ += repetition.text;
    } else {
      if (repeated_) {
        out_.insert(atom_, "(?:");
        out_ += ")";
      }
      out_ += repetition.text;
      repeated_ = true;
    }
    position_ += repetition.length;
  }

  static constexpr size_t kNoAtom = static_cast<size_t>(-1);
  std::string_view pattern_, what_;
  size_t position_ = 0;
  std::string out_;
  size_t atom_ = kNoAtom;  // where the last repeatable item begins in out_
  bool repeated_ = false;  // it has a repetition already
  std::vector<Group> groups_;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view what) {
  return Rewriter(pattern, what).run();
}

}  // namespace quaver::text
