// Stop strings against a byte-by-byte definition, whatever the pieces (F079).
#include "llm/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace quaver::llm {
namespace {

struct Result {
  std::string text;
  int match = -1;
  bool operator==(const Result&) const = default;
};

// The first end of any match, the longest of those that end there.
Result expected(const std::string& text, const std::vector<std::string>& stops, bool include,
                size_t may_stop_from) {
  for (size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      bool here = end > may_stop_from && text.substr(0, end).ends_with(stops[i]);
      if (here && (best < 0 || stops[i].size() > stops[static_cast<size_t>(best)].size()))
        best = static_cast<int>(i);
    }
    if (best >= 0)
      return {text.substr(0, include ? end : end - stops[static_cast<size_t>(best)].size()), best};
  }
  return {text, -1};
}

Result run(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
           bool include = false) {
  StopStrings matcher(stops, include);
  Result result;
  for (const std::string& piece : pieces) {
    StopStrings::Found found = matcher.push(piece);
    result.text += found.text;
    result.match = found.match;
    if (found.match >= 0) return result;
  }
  result.text += matcher.flush();
  return result;
}

TEST(StopStrings, F079_AStopStringThatSpansPieces) {
  std::vector<std::string> pieces = {"The", " quick", " brown", " fox"};
  EXPECT_EQ(run(pieces, {"own fox"}), (Result{"The quick br", 0}));
  EXPECT_EQ(run(pieces, {"x", "own f"}), (Result{"The quick br", 1}));
  EXPECT_EQ(run(pieces, {"The quick brown fox"}), (Result{"", 0}));
  EXPECT_EQ(run(pieces, {"own f"}, true), (Result{"The quick brown f", 0}));
  EXPECT_EQ(run(pieces, {"a", "b", "c", "d"}), (Result{"The qui", 2}));
  EXPECT_EQ(run(pieces, {"fox jumps"}), (Result{"The quick brown fox", -1}));
  EXPECT_EQ(run({"caf", "\u00e9", "!"}, {"\u00e9"}), (Result{"caf", 0}));
}

TEST(StopStrings, HoldsBackOnlyWhatMayBecomeAStop) {
  StopStrings matcher({"own fox", "zz"}, false);
  EXPECT_EQ(matcher.push("The br").text, "The br");
  EXPECT_EQ(matcher.push("own").text, "");
  EXPECT_EQ(matcher.push("ed o").text, "owned ");
  EXPECT_EQ(matcher.push("z").text, "o");
  EXPECT_EQ(matcher.push("y").text, "zy");
  EXPECT_EQ(matcher.push("own fo").text, "");
  EXPECT_EQ(matcher.flush(), "own fo");
}

TEST(StopStrings, WithoutStopsEverythingPasses) {
  StopStrings matcher({}, false);
  EXPECT_EQ(matcher.push("abc").text, "abc");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopStrings, PiecesThatMayNotStopAreStillRemembered) {
  StopStrings matcher({"ab"}, false);
  EXPECT_EQ(matcher.push("xab", false).match, -1);
  EXPECT_EQ(matcher.push("a", false).text, "");
  StopStrings::Found found = matcher.push("b");
  EXPECT_EQ(found.match, 0);
  EXPECT_EQ(found.text, "");
}

TEST(StopStrings, RandomTextInRandomPieces) {
  std::mt19937 random(7);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  auto word = [&](int longest) {
    std::string text(static_cast<size_t>(pick(1, longest)), 'a');
    for (char& c : text) c = static_cast<char>('a' + pick(0, 1));
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(static_cast<size_t>(pick(0, 3)));
    for (std::string& stop : stops) stop = word(6);
    std::string text = word(30);
    bool include = pick(0, 1);
    StopStrings matcher(stops, include);
    size_t may_stop_from = 0;
    bool still_min = pick(0, 1);
    Result got;
    for (size_t at = 0; at < text.size() && got.match < 0;) {
      size_t length = std::min(text.size() - at, static_cast<size_t>(pick(0, 5)));
      still_min = still_min && pick(0, 2);
      if (still_min) may_stop_from = at + length;
      StopStrings::Found found = matcher.push(text.substr(at, length), !still_min);
      got.text += found.text;
      got.match = found.match;
      at += length;
      // Nothing is released that a stop string could still reach, and nothing else is held.
      if (got.match >= 0) break;
      std::string held = text.substr(got.text.size(), at - got.text.size());
      size_t longest = 0;
      for (const std::string& stop : stops)
        for (size_t n = 1; n < stop.size() && n <= at; ++n)
          if (text.substr(0, at).ends_with(stop.substr(0, n))) longest = std::max(longest, n);
      ASSERT_EQ(held.size(), longest);
    }
    if (got.match < 0) got.text += matcher.flush();
    ASSERT_EQ(got, expected(text, stops, include, may_stop_from)) << text;
  }
}

}  // namespace
}  // namespace quaver::llm
