// Pictures in memory: 8 bits a sample, row-major, upright, without padding between rows.
#pragma once

#include <cstdint>
#include <vector>

namespace quaver {

// Samples are as the picture stores them, gamma-coded; no colour profile is applied anywhere.
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]

  bool operator==(const Image&) const = default;
};

// One plane: a mask, or how opaque each pixel is.
struct GrayImage {
  int width = 0, height = 0;
  std::vector<uint8_t> gray;  // [height, width]

  bool operator==(const GrayImage&) const = default;
};

}  // namespace quaver
