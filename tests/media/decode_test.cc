// Pictures of every kind against Pillow, sample for sample; what is refused, and how it is said.
#include "media/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "media/chunks.h"
#include "media/exif.h"
#include "media/golden.h"

namespace quaver {
namespace {

using testing::bytes_in;
using ::testing::HasSubstr;
using testing::picture_file;
using testing::refusal;
using ::testing::StartsWith;

const SafetensorsFile& golden_pictures() {
  static const SafetensorsFile file = SafetensorsFile::open(testing::media_golden("pictures.safetensors"));
  return file;
}

class Pictures : public ::testing::TestWithParam<std::string> {
 protected:
  std::string bytes() const { return picture_file(GetParam()); }
};

TEST_P(Pictures, EqualPillowSampleForSample) {
  const std::string file = bytes();
  EXPECT_TRUE(decode_image(bytes_in(file), "x") ==
              testing::golden_image(golden_pictures(), GetParam() + ".rgb"));
  EXPECT_TRUE(decode_mask(bytes_in(file), "x") ==
              testing::golden_gray(golden_pictures(), GetParam() + ".mask"));
  EXPECT_TRUE(decode_alpha(bytes_in(file), "x") ==
              testing::golden_gray(golden_pictures(), GetParam() + ".alpha"));
}

// Every prefix is refused, and none is painted in part, but for an animation whose first frame is whole.
TEST_P(Pictures, CutOffAnywhereAreRefused) {
  const std::string file = bytes();
  const size_t end = GetParam().ends_with(".gif") ? testing::end_of_first_gif_frame(file) : file.size();
  for (size_t size = 0; size < end; ++size) {
    const std::string message = refusal(file.substr(0, size));
    ASSERT_THAT(message, StartsWith("body.image: ")) << "of " << size << " bytes";
    ASSERT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST_P(Pictures, OneByteOrPixelOverTheLimitIsRefused) {
  const std::string file = bytes();
  const Image image = decode_image(bytes_in(file), "x");
  const int64_t pixels = int64_t{image.width} * image.height;
  EXPECT_EQ(refusal(file, {.max_pixels = pixels, .max_bytes = file.size()}), "");
  EXPECT_THAT(refusal(file, {.max_pixels = pixels - 1}),
              HasSubstr(cat("more than the ", pixels - 1, " allowed")));
  EXPECT_THAT(
      refusal(file, {.max_bytes = file.size() - 1}),
      HasSubstr(cat("the picture has ", file.size(), " bytes, more than the ", file.size() - 1, " allowed")));
}

INSTANTIATE_TEST_SUITE_P(Media, Pictures, ::testing::ValuesIn(testing::picture_names()), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(DecodeImage, NamesWidthHeightAndLimit) {
  EXPECT_EQ(refusal(picture_file("rgb.png"), {.max_pixels = 100}),
            "body.image: the picture is 24 x 16 pixels, more than the 100 allowed");
}

TEST(DecodeImage, UnknownKindsAreNamedByTheirFirstBytes) {
  EXPECT_EQ(refusal(""), "body.image: expected a picture, got 0 bytes");
  EXPECT_EQ(refusal("BM6\1"),
            "body.image: expected a PNG, JPEG, WebP or GIF picture, got bytes that begin 42 4d 36 01");
  for (const std::string_view other :
       {"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "II*\0\x08\0\0\0", "RIFF1234WAVEfmt "})
    EXPECT_THAT(refusal(other), HasSubstr("expected a PNG, JPEG, WebP or GIF picture"));
}

TEST(DecodeImage, ZeroSizesAreRefused) {
  for (const auto& [width, height] : {std::pair(0u, 5u), {5u, 0u}})
    EXPECT_THAT(refusal(testing::png_header(width, height) + testing::png_chunk("IEND", "")),
                StartsWith("body.image: the PNG is damaged: "));
  std::string gif = picture_file("plain.gif");
  gif[6] = gif[7] = 0;
  EXPECT_EQ(refusal(gif), "body.image: the picture is 0 x 16 pixels");
}

// The checksum of every chunk counts, of those that are skipped too.
TEST(DecodeImage, WrongChecksumsAreRefused) {
  for (const std::string_view kind : {"IHDR", "IDAT", "IEND", "tEXt"}) {
    std::string file = picture_file("text.png");
    const size_t at = file.find(kind);
    const uint32_t length = static_cast<uint8_t>(file[at - 1]);
    file[at + 4 + length] ^= 1;
    EXPECT_THAT(refusal(file), HasSubstr("the PNG is damaged: ")) << kind;
  }
}

// Bytes that were lost inside the data of a JPEG, whose libraries paint on in grey.
TEST(DecodeImage, HolesInJpegDataAreRefused) {
  for (const std::string_view name : {"restarts.jpg", "progressive.jpg"}) {
    std::string file = picture_file(name);
    file.erase(file.size() - 60, 40);
    EXPECT_THAT(refusal(file), HasSubstr("the JPEG is damaged: ")) << name;
  }
}

// Cameras leave such bytes, more here than a decoder reads ahead, and the picture is whole. Without the
// marker at the end nobody knows whether it is.
TEST(DecodeImage, BytesBeforeTheEndOfAJpegDoNoHarm) {
  const std::string file = picture_file("444.jpg"), zeros(20, '\0');
  const std::string without_end = file.substr(0, file.size() - 2) + zeros;
  const Image image = decode_image(bytes_in(file), "x");
  EXPECT_TRUE(decode_image(bytes_in(without_end + "\xFF\xD9"), "x") == image);
  EXPECT_TRUE(decode_image(bytes_in(file + "more"), "x") == image);
  EXPECT_EQ(refusal(without_end), "body.image: the JPEG is damaged: Premature end of JPEG file");
}

TEST(DecodeImage, PaletteIndicesBeyondThePaletteAreRefused) {
  std::string gif = picture_file("plain.gif");
  gif[10] = static_cast<char>((gif[10] & ~7) | 2);  // 8 colours instead of 32
  gif.erase(13 + 8 * 3, 24 * 3);
  EXPECT_THAT(refusal(gif), HasSubstr("of 8 colours"));
}

TEST(DecodeImage, AFrameThatLeavesTheScreenIsRefused) {
  std::string gif = picture_file("plain.gif");
  gif[6] = 23;
  EXPECT_EQ(refusal(gif),
            "body.image: the GIF is damaged: its first frame is 24 x 16 at 0, 0 on a screen of 23 x 16");
}

// F103: what the bytes are decides; nothing else is asked.
TEST(F103, TheKindIsWhatTheBytesAre) {
  for (const std::string_view name : {"rgb.png", "444.jpg", "lossless.webp", "plain.gif"}) {
    const std::string file = picture_file(name);
    const Image image = decode_image(bytes_in(file), "cat.bmp");
    EXPECT_EQ(image.width, 24) << name;
    EXPECT_EQ(image.height, 16) << name;
  }
}

// F108: all eight ways to hold a camera show the same corner at the top left. Without EXIF it is
// orientation 1.
TEST(F108, PicturesStandUpright) {
  const Image upright = decode_image(bytes_in(picture_file("orientation_1.jpg")), "x");
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image image = decode_image(bytes_in(picture_file(cat("orientation_", orientation, ".jpg"))), "x");
    EXPECT_EQ(image.width, orientation < 5 ? 24 : 16);
    EXPECT_EQ(image.height, orientation < 5 ? 16 : 24);
    EXPECT_EQ(image == upright, orientation == 1);
  }
}

TEST(F108, HiddenPixelsAreWhite) {
  for (const std::string_view name :
       {"rgba.png", "gray_alpha.png", "interlaced.png", "lossless_alpha.webp", "animated.webp"}) {
    const std::string file = picture_file(name);
    const Image image = decode_image(bytes_in(file), "x");
    const GrayImage alpha = decode_alpha(bytes_in(file), "x");
    int hidden = 0;
    for (size_t i = 0; i < alpha.gray.size(); ++i) {
      if (alpha.gray[i] != 0) continue;
      ++hidden;
      for (size_t c = 0; c < 3; ++c) EXPECT_EQ(image.rgb[3 * i + c], 255);
    }
    EXPECT_GE(hidden, 96) << name;
  }
}

int orientation_in(std::string_view block) { return media::exif_orientation(bytes_in(block)); }

TEST(Exif, WhatCannotBeReadMeansUpright) {
  const std::string sound("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22);
  EXPECT_EQ(orientation_in(sound), 6);
  EXPECT_EQ(orientation_in(std::string("Exif\0\0", 6) + sound), 6);
  for (size_t size = 0; size < sound.size(); ++size) EXPECT_EQ(orientation_in(sound.substr(0, size)), 1);
  const auto changed = [&](size_t at, char value) {
    std::string block = sound;
    block[at] = value;
    return orientation_in(block);
  };
  EXPECT_EQ(changed(0, 'M'), 1);
  EXPECT_EQ(changed(7, '\x7F'), 1);  // a directory far behind the end
  EXPECT_EQ(changed(12, 4), 1);      // a LONG
  EXPECT_EQ(changed(14, 2), 1);      // two values
  EXPECT_EQ(changed(18, 0), 1);
  EXPECT_EQ(changed(18, 9), 1);
}

}  // namespace
}  // namespace quaver
