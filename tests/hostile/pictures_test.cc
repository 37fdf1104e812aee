// Damaged pictures of every kind: an image, whole, or one sentence, soon and in little memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hostile/mutate.h"
#include "media/chunks.h"
#include "media/data_url.h"
#include "media/decode.h"
#include "media/golden.h"
#include "media/png_text.h"

namespace quaver {
namespace {

constexpr ImageLimits kSmallPictures{.max_pixels = 1 << 16, .max_bytes = 1 << 20};

void decode_and_check(std::span<const std::byte> bytes) {
  const Image image = decode_image(bytes, "x", kSmallPictures);
  EXPECT_EQ(image.rgb.size(), size_t(image.width) * size_t(image.height) * 3);
  const GrayImage alpha = decode_alpha(bytes, "x", kSmallPictures);
  EXPECT_EQ(std::pair(alpha.width, alpha.height), std::pair(image.width, image.height));
  EXPECT_EQ(alpha.gray.size(), size_t(image.width) * size_t(image.height));
}

std::vector<std::string> pictures_named(std::string_view ending) {
  std::vector<std::string> files;
  for (const std::string& name : testing::picture_names())
    if (name.ends_with(ending)) files.push_back(testing::picture_file(name));
  return files;
}

// Returns how many of 20,000 damaged inputs were taken.
int taken_of_damaged(std::string_view ending, uint64_t seed,
                     const std::function<void(std::span<const std::byte>)>& reader) {
  return testing::run_mutations({.originals = pictures_named(ending), .count = 20000, .seed = seed}, reader);
}

// The checksums set right, as far as the chunks can be followed: otherwise hardly any damage gets past them.
std::string with_sound_checksums(std::span<const std::byte> bytes) {
  std::string file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = 8; at + 12 <= file.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(file[at + i]);
    if (length > file.size() - at - 12) break;
    file.replace(at, length + 12, testing::png_chunk(file.substr(at + 4, 4), file.substr(at + 8, length)));
    at += length + 12;
  }
  return file;
}

TEST(MutatedPictures, Png) {
  const int accepted = taken_of_damaged(".png", 31, [](std::span<const std::byte> bytes) {
    const std::string repaired = with_sound_checksums(bytes);
    try {
      read_png_text(testing::bytes_in(repaired), "x");
    } catch (const Error&) {
    }
    decode_and_check(testing::bytes_in(repaired));
  });
  EXPECT_GT(accepted, 1000) << "the damage is too coarse to reach the data";
  EXPECT_LT(accepted, 15000);
}

TEST(MutatedPictures, PngWithItsChecksums) {
  const int accepted = taken_of_damaged(".png", 32, decode_and_check);
  EXPECT_LT(accepted, 3000) << "what is left are bytes behind the end, and damage that changes nothing";
}

TEST(MutatedPictures, Jpeg) {
  const int accepted = taken_of_damaged(".jpg", 33, decode_and_check);
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 15000);
}

TEST(MutatedPictures, Webp) {
  const int accepted = taken_of_damaged(".webp", 34, decode_and_check);
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 15000);
}

TEST(MutatedPictures, Gif) {
  const int accepted = taken_of_damaged(".gif", 35, decode_and_check);
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 15000);
}

TEST(MutatedPictures, DataUrls) {
  const std::vector<std::string> urls = {"data:image/png;base64,iVBORw0KGgo=",
                                         "data:image/webp;name=a;base64,UklGRg=="};
  testing::run_mutations(
      {.originals = urls, .count = 20000, .seed = 36}, [](std::span<const std::byte> bytes) {
        parse_data_url({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "x", 1000);
      });
}

}  // namespace
}  // namespace quaver
