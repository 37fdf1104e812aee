// What the decoder of one kind of picture is given and hands on; decode.cc makes an upright opaque image of
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "media/decode.h"

namespace quaver::media {

struct PictureSource {
  std::span<const std::byte> bytes;
  std::string_view what;  // begins every error
  const ImageLimits& limits;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
};

struct Raster {
  int width = 0, height = 0;
  int channels = 3;              // RGB, or 4: RGB and alpha, not multiplied with each other
  std::vector<uint8_t> samples;  // [height, width, channels]
  int orientation = 1;           // EXIF's 1 to 8

  // Room for every sample, and none is there yet: memory is touched only as rows arrive, so a header that
  // lies costs address space alone.
  void reserve() { samples.reserve(size_t(width) * size_t(height) * size_t(channels)); }
  uint8_t* add_row() {
    const size_t old = samples.size();
    samples.resize(old + size_t(width) * size_t(channels));
    return samples.data() + old;
  }
};

// Throws Error(kInvalidInput) naming width, height and limit.
void check_size(int64_t width, int64_t height, const PictureSource& source);

template <class... Args>
void require_sound(bool sound, const PictureSource& source, const Args&... args) {
  require(sound, ErrorKind::kInvalidInput, source.what, ": ", args...);
}

Raster read_png(const PictureSource& source);
Raster read_jpeg(const PictureSource& source);
Raster read_webp(const PictureSource& source);
Raster read_gif(const PictureSource& source);

}  // namespace quaver::media
