// Knuth-Morris-Pratt over all stop strings at once.
#include "llm/stop_strings.h"

#include <algorithm>
#include <utility>

namespace quaver::llm {

StopStrings::StopStrings(const std::vector<std::string>& stops, bool include) : include_(include) {
  for (const std::string& text : stops) {
    Pattern pattern{text, std::vector<size_t>(text.size(), 0), 0};
    for (size_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.fallback[border - 1];
      if (text[i] == text[border]) ++border;
      pattern.fallback[i] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopStrings::advance(Pattern& pattern, char c) {
  if (pattern.matched == pattern.text.size()) pattern.matched = pattern.fallback.back();
  while (pattern.matched > 0 && pattern.text[pattern.matched] != c)
    pattern.matched = pattern.fallback[pattern.matched - 1];
  if (pattern.text[pattern.matched] == c) ++pattern.matched;
}

StopStrings::Found StopStrings::push(std::string_view piece, bool may_stop) {
  if (patterns_.empty()) return {std::string(piece)};
  for (char c : piece) {
    held_.push_back(c);
    int match = -1;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      advance(pattern, c);
      bool complete = pattern.matched == pattern.text.size();
      if (complete && (match < 0 || pattern.text.size() > patterns_[static_cast<size_t>(match)].text.size()))
        match = static_cast<int>(i);
    }
    if (match < 0 || !may_stop) continue;
    if (!include_) held_.resize(held_.size() - patterns_[static_cast<size_t>(match)].text.size());
    return {std::exchange(held_, {}), match};
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) {
    bool complete = pattern.matched == pattern.text.size();
    keep = std::max(keep, complete ? pattern.fallback.back() : pattern.matched);
  }
  Found found{held_.substr(0, held_.size() - keep)};
  held_.erase(0, held_.size() - keep);
  return found;
}

std::string StopStrings::flush() { return std::exchange(held_, {}); }

}  // namespace quaver::llm
