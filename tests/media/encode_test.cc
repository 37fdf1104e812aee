// What is written reads back: exactly where the format is lossless, as close as Pillow's own file where it is
// not.
#include "media/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "media/golden.h"

namespace quaver {
namespace {

using testing::bytes_in;
using testing::catch_error;
using ::testing::HasSubstr;
using testing::picture_file;
using Text = TextMetadata;

Image gradient() { return decode_image(bytes_in(picture_file("rgb.png")), "x"); }

int largest_difference(const Image& a, const Image& b) {
  EXPECT_EQ(std::pair(a.width, a.height), std::pair(b.width, b.height));
  int largest = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
  return largest;
}

TEST(EncodePng, ComesBackExactly) {
  const Image image = gradient();
  EXPECT_TRUE(decode_image(encode_png(image), "x") == image);
  const Image pixel{1, 1, {7, 8, 9}};
  EXPECT_TRUE(decode_image(encode_png(pixel), "x") == pixel);
}

TEST(EncodePng, TextComesBackInOrder) {
  const Text text = {{"parameters", "a cat\nSteps: 4, \xE7\x8C\xAB"},
                     {"prompt", R"({"3": 1})"},
                     {"Comment", ""},
                     {"parameters", "once more"}};
  const auto bytes = encode_png(gradient(), text);
  EXPECT_EQ(read_png_text(bytes, "x"), text);
  EXPECT_TRUE(decode_image(bytes, "x") == gradient());
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(file.find("iTXtparameters"), file.rfind("iTXt"));
  EXPECT_NE(file.find("tEXtprompt"), std::string_view::npos);
}

TEST(EncodePng, TextThatPngCannotHoldIsRefused) {
  const auto message = [](const std::string& keyword, const std::string& value) {
    return catch_error([&] { encode_png({1, 1, {1, 2, 3}}, {{keyword, value}}); }).message;
  };
  EXPECT_EQ(message(std::string(79, 'k'), "v"), "");
  for (const std::string& keyword : {std::string(), std::string(80, 'k'), std::string(" a"),
                                     std::string("a "), std::string("caf\xC3\xA9"), std::string("a\nb")})
    EXPECT_THAT(message(keyword, "v"), HasSubstr("1 to 79 printable ASCII characters")) << keyword;
  EXPECT_EQ(message("k", std::string("a\0b", 3)), "the text of 'k' in a PNG may hold no NUL");
}

TEST(ReadPngText, ReadsWhatPillowWrote) {
  std::string parameters, prompt;
  for (int i = 0; i < 20; ++i) parameters += "a cat, steps: 4\n";
  for (int i = 0; i < 9; ++i) prompt += "{\"3\": \"\xC3\xBC\"}";
  EXPECT_EQ(read_png_text(bytes_in(picture_file("text.png")), "x"),
            (Text{{"Title", "caf\xC3\xA9"},
                  {"parameters", parameters},
                  {"Comment", "\xE7\x8C\xAB \xF0\x9F\x90\x88"},
                  {"prompt", prompt}}));
  EXPECT_EQ(read_png_text(bytes_in(picture_file("rgb.png")), "x"), Text{});
  EXPECT_THAT(catch_error([] { read_png_text(bytes_in("GIF89a"), "a.png"); }).message,
              HasSubstr("a.png: the PNG is damaged: "));
}

// The same samples as Pillow's own file of that quality and that halving of chroma.
TEST(EncodeJpeg, IsWhatPillowWrites) {
  const Image source = decode_image(bytes_in(picture_file("source_23x17.png")), "x");
  const Image theirs = decode_image(bytes_in(picture_file("420.jpg")), "x");
  EXPECT_TRUE(decode_image(encode_jpeg(source, 85), "x") == theirs);
}

TEST(EncodeLossy, QualityIsSizeAndLikeness) {
  const Image image = gradient();
  for (const std::string_view name : {"jpeg", "webp"}) {
    const auto rough = picture_format(name).encode(image, {.quality = 5}),
               fine = picture_format(name).encode(image, {.quality = 100});
    EXPECT_LT(rough.size(), fine.size()) << name;
    EXPECT_GT(largest_difference(decode_image(rough, "x"), image),
              largest_difference(decode_image(fine, "x"), image))
        << name;
    for (const int quality : {-1, 101})
      EXPECT_THAT(catch_error([&] { picture_format(name).encode(image, {.quality = quality}); }).message,
                  HasSubstr(cat("is 0 to 100, got ", quality)));
  }
}

TEST(EncodeWebp, LosslessComesBackExactly) {
  const Image image = gradient();
  EXPECT_TRUE(decode_image(encode_webp(image, {.lossless = true}), "x") == image);
}

TEST(EncodeLimits, SidesThatAFormatCannotCountAreRefused) {
  const Image wide{70000, 1, std::vector<uint8_t>(210000)};
  EXPECT_THAT(catch_error([&] { encode_webp(wide, {}); }).message,
              HasSubstr("at most 16383 pixels a side, got 70000 x 1"));
  EXPECT_THAT(catch_error([&] { encode_jpeg(wide, 90); }).message,
              HasSubstr("the picture can't be written as JPEG: "));
  EXPECT_TRUE(decode_image(encode_png(wide), "x") == wide);
}

TEST(PictureFormats, EachWritesWhatItIsNamedAfter) {
  const std::pair<std::string_view, std::string_view> beginnings[] = {
      {"png", "\x89PNG"}, {"jpeg", "\xFF\xD8"}, {"jpg", "\xFF\xD8"}, {"webp", "RIFF"}};
  EXPECT_EQ(picture_formats().size(), std::size(beginnings));
  for (const auto& [name, beginning] : beginnings) {
    const auto bytes = picture_format(name).encode(gradient(), {});
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), beginning.size()), beginning);
    EXPECT_EQ(decode_image(bytes, "x").width, 24) << name;
  }
  EXPECT_EQ(picture_format("jpg").media_type, "image/jpeg");
  EXPECT_EQ(picture_format("webp").extension, ".webp");
  EXPECT_EQ(catch_error([] { picture_format("PNG"); }).message,
            "expected a picture format out of png, jpeg, jpg, webp, got 'PNG'");
}

}  // namespace
}  // namespace quaver
