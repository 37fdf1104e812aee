// Any bytes as a picture: an image of the size that it says, or an Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "media/decode.h"
#include "media/png_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const quaver::ImageLimits limits{.max_pixels = 1 << 16, .max_bytes = 1 << 20};
  try {
    const quaver::Image image = quaver::decode_image(file, "x", limits);
    if (image.rgb.size() != size_t(image.width) * size_t(image.height) * 3) std::abort();
  } catch (const quaver::Error&) {
  }
  try {
    quaver::read_png_text(file, "x");
  } catch (const quaver::Error&) {
  }
  return 0;
}
