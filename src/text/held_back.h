// How much of a text's end may be the beginning of a tag, and so must not be given out yet.
#pragma once

#include <algorithm>
#include <string_view>

namespace quaver {

// The longest end of `text` that is a proper beginning of `tag`.
inline size_t partial_tag(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.empty() ? 0 : tag.size() - 1); n > 0; --n)
    if (tag.starts_with(text.substr(text.size() - n))) return n;
  return 0;
}

}  // namespace quaver
