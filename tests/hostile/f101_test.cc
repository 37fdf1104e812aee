// F101, pictures' part: how many frames there are is not asked; the first one counts, and none is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "media/golden.h"

namespace quaver {
namespace {

using testing::bytes_in;
using testing::picture_file;
using testing::refusal;

std::string riff_webp(const std::string& chunks) {
  return cat("RIFF", testing::little_endian(4 + chunks.size(), 4), "WEBP", chunks);
}

// A canvas of 24 x 16 that says it is animated, and its colour and number of loops.
std::string animation_header() {
  return cat("VP8X", testing::little_endian(10, 4), testing::little_endian(2, 4),
             testing::little_endian(23, 3), testing::little_endian(15, 3), "ANIM",
             testing::little_endian(6, 4), testing::little_endian(0, 6));
}

TEST(F101, AnimationsWithoutAFrameAreRefused) {
  const std::string gif = picture_file("plain.gif");
  const size_t palette_end = 13 + 3 * (size_t{2} << (gif[10] & 7));
  EXPECT_EQ(refusal(gif.substr(0, palette_end) + ";"), "body.image: the GIF holds no picture");
  EXPECT_NE(refusal(riff_webp(animation_header())), "");
}

TEST(F101, TheFirstFrameIsAllThatIsRead) {
  const std::string gif = picture_file("animated.gif");
  const size_t end = testing::end_of_first_gif_frame(gif);
  const Image first = decode_image(bytes_in(gif), "x");
  EXPECT_TRUE(decode_image(bytes_in(gif.substr(0, end) + ";"), "x") == first);
  EXPECT_TRUE(decode_image(bytes_in(gif.substr(0, end) + "broken tail"), "x") == first);
  std::string many = gif;
  for (int i = 0; i < 100'000; ++i) many += std::string("\x2C\0\0\0\0\xFF\xFF\xFF\xFF\0", 10);
  EXPECT_TRUE(decode_image(bytes_in(many), "x") == first);
}

TEST(F101, AWebpThatIsCutInALaterFrameIsRefused) {
  const std::string webp = picture_file("animated.webp");
  EXPECT_NE(refusal(webp.substr(0, webp.size() - 100)), "");
}

}  // namespace
}  // namespace quaver
