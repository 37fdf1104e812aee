// Repair of broken UTF-8 agrees with Python's errors="replace".
#include "text/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace quaver::text {
namespace {

TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r(kReplacementUtf8);
  EXPECT_EQ(utf8_repair("ab\xC3\xA9"), "ab\xC3\xA9");
  EXPECT_EQ(utf8_repair("\x80"), r);
  EXPECT_EQ(utf8_repair("\xC0\xAF"), r + r);                  // overlong
  EXPECT_EQ(utf8_repair("\xE0\x80\xAF"), r + r + r);          // overlong
  EXPECT_EQ(utf8_repair("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(utf8_repair("\xF0\x9F\x98x"), r + "x");           // cut: one for the three
  EXPECT_EQ(utf8_repair("\xF0\x9F\x98"), r);                  // cut by the end
  EXPECT_EQ(utf8_repair("\xF4\x90\x80\x80"), r + r + r + r);  // past U+10FFFF
  EXPECT_EQ(utf8_repair("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");
  EXPECT_EQ(utf8_repair("\xFF\xFE"), r + r);
}

TEST(Utf8, ReadsWhatItWrites) {
  for (const char32_t c :
       {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFF', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    utf8_append(text, c);
    size_t position = 0;
    EXPECT_TRUE(utf8_valid(text));
    EXPECT_EQ(utf8_next(text, position), c);
    EXPECT_EQ(position, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut)
      EXPECT_EQ(utf8_scan(text.substr(0, cut), 0).status, Utf8Status::kIncomplete);
  }
}

}  // namespace
}  // namespace quaver::text
