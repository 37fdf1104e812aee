// Sorted tables of character properties; the values are in the generated unicode_tables.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quaver::jinja {

struct CodeRange {
  char32_t first, last;
};
// The characters first, first + step, ... last map to themselves plus delta.
struct CaseRun {
  char32_t first, last;
  int32_t step, delta;
};
struct CaseText {
  char32_t from;
  const char* to;
};

#define QUAVER_UNICODE_RANGES(name) \
  extern const CodeRange name[];    \
  extern const size_t name##Count
#define QUAVER_UNICODE_MAPPING(name)  \
  extern const CaseRun name[];        \
  extern const size_t name##Count;    \
  extern const CaseText name##Text[]; \
  extern const size_t name##TextCount

QUAVER_UNICODE_RANGES(kUnprintable);
QUAVER_UNICODE_RANGES(kAlpha);
QUAVER_UNICODE_RANGES(kDecimal);
QUAVER_UNICODE_RANGES(kDigit);
QUAVER_UNICODE_RANGES(kNumeric);
QUAVER_UNICODE_RANGES(kLowerCase);
QUAVER_UNICODE_RANGES(kUpperCase);
QUAVER_UNICODE_RANGES(kTitleCase);
QUAVER_UNICODE_MAPPING(kToUpper);
QUAVER_UNICODE_MAPPING(kToLower);
QUAVER_UNICODE_MAPPING(kToTitle);
QUAVER_UNICODE_MAPPING(kToFold);

#undef QUAVER_UNICODE_RANGES
#undef QUAVER_UNICODE_MAPPING

}  // namespace quaver::jinja
