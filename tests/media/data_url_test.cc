// data: URLs as clients write them, and what only looks like one.
#include "media/data_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "media/golden.h"

namespace quaver {
namespace {

using ::testing::HasSubstr;

std::string url_refusal(std::string_view url, size_t max_bytes = 100) {
  return testing::catch_error([&] { parse_data_url(url, "body.image_url", max_bytes); }).message;
}

TEST(DataUrls, GiveTypeAndBytes) {
  const std::string file = testing::picture_file("rgb.png");
  const DataUrl url =
      parse_data_url(cat("data:image/png;base64,", base64_encode(testing::bytes_in(file))), "x", 1000);
  EXPECT_EQ(url.media_type, "image/png");
  EXPECT_TRUE(std::ranges::equal(url.bytes, testing::bytes_in(file)));
  EXPECT_EQ(parse_data_url("DATA:Image/PNG;name=a.png;BASE64,Zm9v", "x", 3).media_type, "image/png");
  EXPECT_EQ(parse_data_url("data:image/svg+xml;base64,Zm9v", "x", 3).media_type, "image/svg+xml");
}

TEST(DataUrls, AreToldFromOthers) {
  EXPECT_TRUE(is_data_url("data:"));
  EXPECT_TRUE(is_data_url("dAta:,"));
  for (const std::string_view url : {"", "data", " data:", "https://example.com/data:"})
    EXPECT_FALSE(is_data_url(url));
}

TEST(DataUrls, AreReadStrictly) {
  const std::pair<std::string_view, std::string_view> wrong[] = {
      {"https://example.com/a.png", "body.image_url: expected a data URL"},
      {"data:image/png;base64", "found no comma in the first 256 characters"},
      {"data:image/png,Zm9v", "expected a data URL in base64"},
      {"data:image/png;base64;x=y,Zm9v", "expected a data URL in base64"},
      {"data:;base64,Zm9v", "expected TYPE/SUBTYPE after 'data:'"},
      {"data:image;base64,Zm9v", "expected TYPE/SUBTYPE"},
      {"data:image/;base64,Zm9v", "expected TYPE/SUBTYPE"},
      {"data: image/png;base64,Zm9v", "expected TYPE/SUBTYPE"},
      {"data:image/png/x;base64,Zm9v", "expected TYPE/SUBTYPE"},
      {"data:image/png;base64,", "the data URL holds no data"},
      {"data:image/png;base64,Zm9", "is not valid base64"},
      {"data:image/png;base64, Zm9v", "is not valid base64"},
      {"data:image/png;base64,Zm9v\n", "is not valid base64"},
      {"data:image/png;base64,Zm%3D", "is not valid base64"},
      {"data:image/png;base64,data:image/png;base64,Zm9v", "is not valid base64"}};
  for (const auto& [url, reason] : wrong) EXPECT_THAT(url_refusal(url), HasSubstr(reason)) << url;
}

TEST(DataUrls, AreCappedBeforeTheyAreDecoded) {
  EXPECT_EQ(url_refusal("data:image/png;base64,Zm9v", 3), "");
  EXPECT_THAT(url_refusal("data:image/png;base64,Zm9v", 2),
              HasSubstr("holds 3 bytes, more than the 2 allowed"));
  EXPECT_THAT(url_refusal("data:image/png;base64," + std::string(4000, 'A'), 100),
              HasSubstr("has 4000 characters for at most 100 bytes"));
}

}  // namespace
}  // namespace quaver
