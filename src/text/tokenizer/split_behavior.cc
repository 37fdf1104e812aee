// Joining of delimiters to their neighbours.
#include "text/tokenizer/split_behavior.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/tokenizer/shown.h"

namespace quaver::text {
namespace {

// Joins each stretch to the one before it when joins(match, previous match).
template <class Joins>
void join(std::vector<Stretch>& stretches, Joins&& joins) {
  size_t kept = 0;
  bool previous = false;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const Stretch current = stretches[i];
    if (kept > 0 && joins(current.is_match, previous)) {
      stretches[kept - 1].begin = std::min(stretches[kept - 1].begin, current.begin);
      stretches[kept - 1].end = std::max(stretches[kept - 1].end, current.end);
    } else {
      stretches[kept++] = current;
    }
    previous = current.is_match;
  }
  stretches.resize(kept);
}

}  // namespace

void apply_behavior(SplitBehavior behavior, std::vector<Stretch>& stretches) {
  const auto delimiter_after_text = [](bool match, bool previous) { return match && !previous; };
  if (behavior == SplitBehavior::kRemoved) {
    std::erase_if(stretches, [](const Stretch& s) { return s.is_match; });
  } else if (behavior == SplitBehavior::kContiguous) {
    join(stretches, [](bool match, bool previous) { return match == previous; });
  } else if (behavior == SplitBehavior::kMergedWithPrevious) {
    join(stretches, delimiter_after_text);
  } else if (behavior == SplitBehavior::kMergedWithNext) {
    std::reverse(stretches.begin(), stretches.end());
    join(stretches, delimiter_after_text);
    std::reverse(stretches.begin(), stretches.end());
  }
}

SplitBehavior read_behavior(const json& spec, SplitBehavior fallback, std::string_view what) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  const auto name = json_value<std::string>(spec, "behavior", "", what);
  if (name.empty()) return fallback;
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  fail(ErrorKind::kBadFile, what, ": unknown split behavior '", shown(name), "'");
}

}  // namespace quaver::text
