// Patterns cut texts as Oniguruma does, in the library's own answers.
#include "text/tokenizer/oniguruma_syntax.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "text/tokenizer/pre_tokenizers.h"

namespace quaver::text {
namespace {

std::vector<std::string> cut(const std::string& pattern, const std::string& text) {
  const auto split = make_pre_tokenizer(
      {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
      "test");
  Segments segments{text, {{0, text.size(), -1, 0}}};
  split->apply(segments);
  std::vector<std::string> parts;
  for (const Segment& segment : segments.list) parts.emplace_back(segments.view(segment));
  return parts;
}

TEST(OnigurumaSyntax, CutsAsTheLibraryDoes) {
  const json rows = read_json_file(cat(QUAVER_TEST_DATA, "/golden/text/oniguruma.json"));
  ASSERT_GT(rows.size(), 90u);
  for (const json& row : rows) {
    const std::string pattern = row[0];
    EXPECT_EQ(json(cut(pattern, row[1])), row[2])
        << pattern << " -> " << pcre2_from_oniguruma(pattern, "test");
  }
}

TEST(OnigurumaSyntax, KeepsWhatTheDialectsShare) {
  for (const char* pattern :
       {"'s|'t| ?[a-c]+", "(?:ab)+?", "(?=a)(?!b)(?<=c)(?<!d)(?>e)", "\\n\\r\\t", "a{1,3}"})
    EXPECT_EQ(pcre2_from_oniguruma(pattern, "test"), pattern);
}

TEST(OnigurumaSyntax, RefusesWhatItCannotExpress) {
  for (const char* pattern : {"(",
                              ")",
                              "[",
                              "[a",
                              "[[:alpha:]",
                              "a)",
                              "(?#",
                              "\\",
                              "\\p",
                              "\\p{",
                              "\\pL",
                              "\\p{Klingon}",
                              "\\p{InBasicLatin}",
                              "(?~b)",
                              "*",
                              "(?<",
                              "(?",
                              "[z-a]",
                              "\\C",
                              "x{99999999999999999999}"})
    EXPECT_THROW(cut(pattern, "text"), Error) << pattern;
}

TEST(OnigurumaSyntax, RefusesDeepNesting) {
  EXPECT_THROW(cut(std::string(100000, '('), "text"), Error);
  EXPECT_THROW(cut(std::string(100000, '['), "text"), Error);
  std::string balanced(1000, '(');
  EXPECT_THROW(cut(balanced + std::string(1000, ')'), "text"), Error);
}

}  // namespace
}  // namespace quaver::text
