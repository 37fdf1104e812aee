// Finds stop strings in text that arrives in pieces, and holds back what may still become one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quaver::llm {

// The match is the one that a reader going byte by byte sees completed first, the longest of those; it does
// not depend on how the text is cut into pieces. Nothing is held back beyond the longest end of the text that
// begins some stop string. Whole characters go in and come out, as long as the stop strings are whole
// characters.
class StopStrings {
 public:
  struct Found {
    std::string text;  // released: certain to precede any match
    int match = -1;    // index of the stop string; nothing may be pushed after it
  };

  // `include` releases the matched string too.
  StopStrings(const std::vector<std::string>& stops, bool include);

  // `may_stop` false: matches that end in this piece don't count.
  Found push(std::string_view piece, bool may_stop = true);
  // What is still held back; the text ended without a match.
  std::string flush();

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // Knuth-Morris-Pratt: longest proper border of each prefix
    size_t matched = 0;            // bytes of the pattern that the text ends with
  };
  static void advance(Pattern& pattern, char c);

  std::vector<Pattern> patterns_;
  bool include_;
  std::string held_;
};

}  // namespace quaver::llm
