// The JSON parser's limits: depth, double keys, bytes, broken UTF-8.
#include "base/json.h"

#include <gtest/gtest.h>

namespace quaver {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "file.json", limits);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Json, ReadsWhatIsValid) { EXPECT_EQ(parse_json("{\"a\": [1, 2.5, null]}", "x").at("a").size(), 3u); }

TEST(Json, RefusesDeepNestingWithoutRecursion) {
  EXPECT_EQ(error_of(std::string(1000000, '[')), "file.json: is nested deeper than 64 levels");
}

TEST(Json, RefusesKeysThatStandTwice) {
  EXPECT_EQ(error_of("{\"a\": 1, \"b\": {\"a\": 2}, \"a\": 3}"),
            "file.json: key 'a' stands twice in one object");
}

TEST(Json, RefusesWhatIsTooLong) {
  EXPECT_NE(error_of("[1, 2, 3]", {.max_bytes = 4}).find("more than the 4 allowed"), std::string::npos);
}

TEST(Json, RefusesNanCommentsAndBrokenUtf8) {
  EXPECT_NE(error_of("[NaN]"), "");
  EXPECT_NE(error_of("[1] // no"), "");
  EXPECT_NE(error_of("[\"\xff\"]"), "");
}

TEST(Json, RefusesBytesBehindAZero) {
  EXPECT_EQ(error_of(std::string_view("{}\0}", 4)), "file.json: is not valid JSON at byte 2 (a zero byte)");
}

TEST(Json, MessagesDoNotQuoteTheText) {
  std::string message = error_of("[\"" + std::string(5000, 'x') + "\xff\"]");
  EXPECT_LT(message.size(), 250u);
  EXPECT_EQ(message.find('\xff'), std::string::npos);
  EXPECT_NE(message.find("file.json: is not valid JSON at byte 500"), std::string::npos) << message;
}

TEST(Json, WrongTypeNamesTheKey) {
  json config = {{"hidden_size", "many"}};
  try {
    json_required<int64_t>(config, "hidden_size", "config.json");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.field(), "hidden_size");
    EXPECT_NE(std::string(e.what()).find("config.json: key 'hidden_size' has the wrong type"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace quaver
