// What Replace and Split look for: a fixed text or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer/regex.h"

namespace quaver::text {

// Immutable and thread safe.
class TextPattern {
 public:
  static TextPattern literal(std::string text, std::string_view what);
  static TextPattern regex(std::string_view pattern, std::string_view what);

  // Calls visit(Match) for each match, left to right.
  template <class Visitor>
  void for_each_match(std::string_view subject, Visitor&& visit) const {
    if (regex_) return regex_->for_each_match(subject, visit);
    for (size_t at = 0; (at = subject.find(literal_, at)) != std::string_view::npos; at += literal_.size())
      visit(Match{at, at + literal_.size()});
  }

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

// The key "pattern": {"String": "..."} or {"Regex": "..."}. Errors are Error(kBadFile) beginning with `what`.
TextPattern read_pattern(const json& spec, std::string_view what);

}  // namespace quaver::text
