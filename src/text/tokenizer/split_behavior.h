// What becomes of the delimiters when text is cut.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quaver::text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// A stretch of text that either is a delimiter or lies between two.
struct Stretch {
  size_t begin, end;
  bool is_match;
};

// Turns stretches, which cover the text in order, into the parts to keep; `is_match` then means nothing.
void apply_behavior(SplitBehavior behavior, std::vector<Stretch>& stretches);

// The key "behavior": "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext" or "Contiguous".
SplitBehavior read_behavior(const json& spec, SplitBehavior fallback, std::string_view what);

}  // namespace quaver::text
