// Resizing against Pillow, bit for bit, for every filter in colour and grey.
#include "media/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "media/golden.h"

namespace quaver {
namespace {

const SafetensorsFile& golden_resized() {
  static const SafetensorsFile file = SafetensorsFile::open(testing::media_golden("resized.safetensors"));
  return file;
}

constexpr std::pair<std::string_view, Resample> kFilterNames[] = {{"nearest", Resample::kNearest},
                                                                  {"box", Resample::kBox},
                                                                  {"bilinear", Resample::kBilinear},
                                                                  {"bicubic", Resample::kBicubic},
                                                                  {"lanczos", Resample::kLanczos}};

TEST(Resize, EqualsPillowBitForBit) {
  int compared = 0;
  for (const auto& entry : golden_resized().entries()) {
    const std::string& key = entry.info.name;
    for (const auto& [name, filter] : kFilterNames) {
      const size_t at = key.find(cat(".", name, "."));
      if (at == std::string::npos) continue;
      const std::string source = key.substr(0, at);
      ++compared;
      if (key.ends_with(".gray")) {
        const GrayImage expected = testing::golden_gray(golden_resized(), key);
        const GrayImage image = testing::golden_gray(golden_resized(), source + ".gray");
        EXPECT_TRUE(resize(image, expected.width, expected.height, filter) == expected) << key;
      } else {
        const Image expected = testing::golden_image(golden_resized(), key);
        const Image image = testing::golden_image(golden_resized(), source);
        EXPECT_TRUE(resize(image, expected.width, expected.height, filter) == expected) << key;
      }
    }
  }
  EXPECT_EQ(compared, 140);
}

TEST(Resize, ImpossibleWishesAreRefused) {
  const Image image{1, 1, {1, 2, 3}};
  const auto message = [&](int width, int height, int filter) {
    return testing::catch_error([&] { resize(image, width, height, static_cast<Resample>(filter)); }).message;
  };
  EXPECT_EQ(message(0, 5, 3), "a picture can't be resized to 0 x 5 pixels");
  EXPECT_EQ(message(5, -1, 0), "a picture can't be resized to 5 x -1 pixels");
  EXPECT_EQ(message(2, 2, 5), "there is no resampling filter number 5: expected 0 to 4");
}

}  // namespace
}  // namespace quaver
