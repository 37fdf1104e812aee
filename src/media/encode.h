// Pictures to bytes: PNG, JPEG and WebP, and the table by which requests choose one.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "media/image.h"
#include "media/png_text.h"

namespace quaver {

// Lossless. `text` goes before the picture's data, as tEXt where it is ASCII, else as iTXt; values are UTF-8
// without NUL, keywords 1 to 79 printable ASCII characters without space at the ends. All three encoders
// throw Error(kInvalidInput) for what the format can't hold, and are thread safe. Precondition: the picture
// has pixels.
std::vector<std::byte> encode_png(const Image& image, const TextMetadata& text = {});
// `quality` 0 to 100, as libjpeg counts; chroma at half the resolution; baseline. At most 65500 pixels a
// side.
std::vector<std::byte> encode_jpeg(const Image& image, int quality);
// Lossy, `quality` 0 to 100 as libwebp counts, or exact. At most 16383 pixels a side.
struct WebpOptions {
  int quality = 90;
  bool lossless = false;
};
std::vector<std::byte> encode_webp(const Image& image, const WebpOptions& options);

// What a request may ask for. `quality` as above; PNG, which loses nothing, has no use for it. `text` is for
// PNG: the others have no place for it.
struct PictureOptions {
  int quality = 90;
  TextMetadata text = {};
};
struct PictureFormat {
  std::string_view name;  // as requests spell it
  std::string_view media_type;
  std::string_view extension;  // with its dot
  std::vector<std::byte> (*encode)(const Image& image, const PictureOptions& options);
};

std::span<const PictureFormat> picture_formats();
// Throws Error(kInvalidInput), naming those that there are, for any other name.
const PictureFormat& picture_format(std::string_view name);

}  // namespace quaver
