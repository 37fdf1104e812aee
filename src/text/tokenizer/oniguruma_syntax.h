// Rewrites patterns from Oniguruma's dialect, in which tokenizer.json is written, into PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace quaver::text {

// The two dialects agree on most of what tokenizers use. They differ, and this rewrites: \s \w \d \h \v \b,
// the option letter m, options in the middle of a group, scripts (PCRE2 means script extensions), long
// property names, POSIX brackets, {,n}, {n}? and {n,m}+ (a second repetition, not a mode), repetitions of
// repetitions, and nested and intersected character classes. Throws Error(kBadFile) beginning with `what` on
// a class or group without end. Source: doc/RE of Oniguruma 6.9; pcre2pattern(3).
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view what);

}  // namespace quaver::text
