// Searches are bounded, and matches come in order.
#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace quaver::text {
namespace {

std::vector<std::pair<size_t, size_t>> matches(const char* pattern, std::string_view text) {
  std::vector<std::pair<size_t, size_t>> out;
  Regex::compile(pattern, "test").for_each_match(text, [&](Match match) {
    out.emplace_back(match.begin, match.end);
  });
  return out;
}

TEST(Regex, PassesOverEmptyMatchesThatTouchTheLast) {
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(matches("x*", "axx"), (Pairs{{0, 0}, {1, 3}}));
  EXPECT_EQ(matches("", "é"), (Pairs{{0, 0}, {2, 2}}));
  EXPECT_EQ(matches("a", ""), Pairs{});
}

TEST(Regex, GivesUpOnCatastrophicBacktracking) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* pattern : {"(a+)+$", "(?:a|a)*[xy]", "(?:.*?[ab]){9}[xy]", "(?:(?:a?)*)*[xy]"}) {
    try {
      Regex::compile(pattern, "test").find(std::string(5000, 'a'), 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    }
  }
  EXPECT_THROW(Regex::compile("(?:a|a)*[xy]", "test").find(std::string(200, 'a'), 0), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Regex, RefusesHugePatterns) {
  EXPECT_THROW(Regex::compile(std::string(2 << 20, 'a'), "test"), Error);
  EXPECT_THROW(Regex::compile("(?:a{1,60000}){1,60000}", "test"), Error);
}

}  // namespace
}  // namespace quaver::text
