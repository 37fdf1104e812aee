// Compiled patterns of tokenizer files, run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quaver::text {

struct Match {
  size_t begin, end;
};

// Immutable, cheap to copy and thread safe. Work per search is bounded, so a hostile pattern can't hang.
class Regex {
 public:
  // A pattern in the dialect of tokenizer.json files (Oniguruma's). Throws Error(kBadFile) beginning with
  // `what` when it can't be compiled.
  static Regex compile(std::string_view pattern, std::string_view what);
  // A pattern in PCRE2's own dialect, for patterns of our own.
  static Regex compile_pcre2(std::string_view pattern, std::string_view what);

  // The first match that begins at or after `from`. Precondition: `subject` is valid UTF-8. Throws
  // Error(kInvalidInput) when the search takes too long or too deep a recursion.
  std::optional<Match> find(std::string_view subject, size_t from) const;

  // Calls visit(match) for each match, left to right. An empty match that touches the match before it is
  // passed over, as Oniguruma's Rust binding does.
  template <class Visitor>
  void for_each_match(std::string_view subject, Visitor&& visit) const;

 private:
  Regex(std::string_view pcre2_pattern, std::string_view source, std::string_view what);
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

size_t next_character(std::string_view subject, size_t position);

template <class Visitor>
void Regex::for_each_match(std::string_view subject, Visitor&& visit) const {
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= subject.size();) {
    const auto match = find(subject, from);
    if (!match) return;
    if (match->begin == match->end && last_end == match->end) {
      from = next_character(subject, from);
      continue;
    }
    visit(*match);
    from = match->end;
    last_end = match->end;
  }
}

}  // namespace quaver::text
