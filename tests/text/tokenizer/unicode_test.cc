// Normal forms, case, scripts and clusters against values from Python's unicodedata and the `tokenizers`
// library.
#include "text/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <chrono>

#include "text/tokenizer/unicode_scripts.h"

namespace quaver::text {
namespace {

constexpr NormalForm kNfc{false, true}, kNfd{false, false}, kNfkc{true, true}, kNfkd{true, false};

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize("e\u0301", kNfc), "\u00e9");
  EXPECT_EQ(normalize("\u00e9", kNfd), "e\u0301");
  EXPECT_EQ(normalize("\u1e9b\u0323", kNfc), "\u1e9b\u0323");
  EXPECT_EQ(normalize("\u1e9b\u0323", kNfkc), "\u1e69");
  EXPECT_EQ(normalize("\u1e9b\u0323", kNfkd), "s\u0323\u0307");
  EXPECT_EQ(normalize("a\u0301\u0323", kNfd), "a\u0323\u0301");  // marks in order of their class
  EXPECT_EQ(normalize("\u1112\u1161\u11ab", kNfc), "\ud55c");
  EXPECT_EQ(normalize("\ud55c", kNfd), "\u1112\u1161\u11ab");
  EXPECT_EQ(normalize("\ufb01\u00bd\u2460", kNfkc), "fi1\u204421");
  EXPECT_EQ(normalize("\u0958", kNfc), "\u0915\u093c");  // a composition exclusion
  EXPECT_EQ(normalize("plain", kNfkc), "plain");
}

TEST(Unicode, SortsLongRunsOfMarksInTime) {
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += "\u0301\u0323";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(normalize(text, kNfd).size(), text.size());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Unicode, Lowercase) {
  std::string out;
  for (const char32_t c : {U'A', U'\x130', U'\x3A3', U'\x1E9E', U'\x1C5', U'z'}) append_lowercase(out, c);
  EXPECT_EQ(out, "ai\u0307\u03c3\u00df\u01c6z");
}

TEST(Unicode, Clusters) {
  const std::string family = "\U0001F468\u200D\U0001F469", text = family + "e\u0301x";
  EXPECT_EQ(grapheme_end(text, 0), family.size());
  EXPECT_EQ(grapheme_end(text, family.size()), family.size() + 3);
  EXPECT_EQ(grapheme_end("\r\nx", 0), 2u);
}

std::vector<std::string> runs(std::string_view text) {
  static const UnicodeScripts scripts;
  const std::vector<size_t> starts = scripts.run_starts(text);
  std::vector<std::string> out;
  for (size_t i = 0; i < starts.size(); ++i)
    out.emplace_back(
        text.substr(starts[i], (i + 1 < starts.size() ? starts[i + 1] : text.size()) - starts[i]));
  return out;
}

TEST(UnicodeScripts, CutsAsTheLibraryDoes) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(runs("どこで生れ。Yes"), (Parts{"どこで生れ", "。", "Yes"}));
  EXPECT_EQ(runs("  hello мир"), (Parts{"hello ", "мир"}));
  EXPECT_EQ(runs("Apples are りんご 林檎ー"), (Parts{"Apples are ", "りんご 林檎ー"}));
  EXPECT_EQ(runs("   "), Parts{});
  EXPECT_EQ(runs("a-b 1 ж"), (Parts{"a", "-", "b ", "1 ", "ж"}));
  EXPECT_EQ(runs("x\u0301y"), (Parts{"x", "\u0301", "y"}));
}

}  // namespace
}  // namespace quaver::text
