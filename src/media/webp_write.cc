// WebP out of libwebp.
#include <webp/encode.h>

#include <memory>

#include "base/error.h"
#include "media/encode.h"

namespace quaver {

std::vector<std::byte> encode_webp(const Image& image, const WebpOptions& options) {
  require(options.quality >= 0 && options.quality <= 100, ErrorKind::kInvalidInput,
          "the quality of a WebP is 0 to 100, got ", options.quality);
  require(image.width <= WEBP_MAX_DIMENSION && image.height <= WEBP_MAX_DIMENSION, ErrorKind::kInvalidInput,
          "a WebP holds at most ", WEBP_MAX_DIMENSION, " pixels a side, got ", image.width, " x ",
          image.height);
  uint8_t* encoded = nullptr;
  const int stride = image.width * 3;
  const size_t size =
      options.lossless ? WebPEncodeLosslessRGB(image.rgb.data(), image.width, image.height, stride, &encoded)
                       : WebPEncodeRGB(image.rgb.data(), image.width, image.height, stride,
                                       static_cast<float>(options.quality), &encoded);
  const std::unique_ptr<uint8_t, decltype(&WebPFree)> owner(encoded, WebPFree);
  require(size != 0, ErrorKind::kOutOfMemory, "there is no memory to write a WebP of ", image.width, " x ",
          image.height, " pixels");
  const auto* first = reinterpret_cast<const std::byte*>(encoded);
  return {first, first + size};
}

}  // namespace quaver
