// The text on its way through the pipeline: normalized text, and the pieces that it is cut into.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quaver::text {

// Text while normalizers rewrite it.
struct NormalizedText {
  std::string text;
  // How many bytes at the front stem from the first character of the whole input; zero in a part that begins
  // further in. Only Metaspace's prepend scheme "first" asks.
  size_t origin_bytes = 0;
  size_t limit = SIZE_MAX;  // what the text may grow to, in bytes
};

// A part of Segments::text, or an added token that was recognised before.
struct Segment {
  size_t begin = 0, end = 0;
  int32_t token_id = -1;
  size_t origin_bytes = 0;  // as in NormalizedText
};

struct Segments {
  std::string text;
  std::vector<Segment> list;
  size_t limit = SIZE_MAX;  // as in NormalizedText

  std::string_view view(const Segment& segment) const {
    return std::string_view(text).substr(segment.begin, segment.end - segment.begin);
  }
};

// The part [begin, end) of a segment, positions counted from the segment's own begin.
inline Segment part_of(const Segment& segment, size_t begin, size_t end) {
  const size_t origin = segment.origin_bytes <= begin ? 0 : std::min(segment.origin_bytes, end) - begin;
  return {segment.begin + begin, segment.begin + end, -1, origin};
}

}  // namespace quaver::text
