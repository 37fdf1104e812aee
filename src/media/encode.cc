// The table of writable formats.
#include "media/encode.h"

#include <string>

#include "base/error.h"

namespace quaver {
namespace {

std::vector<std::byte> png_of(const Image& image, const PictureOptions& options) {
  return encode_png(image, options.text);
}
std::vector<std::byte> jpeg_of(const Image& image, const PictureOptions& options) {
  return encode_jpeg(image, options.quality);
}
std::vector<std::byte> webp_of(const Image& image, const PictureOptions& options) {
  return encode_webp(image, {.quality = options.quality});
}

constexpr PictureFormat kPictureFormats[] = {{"png", "image/png", ".png", png_of},
                                             {"jpeg", "image/jpeg", ".jpg", jpeg_of},
                                             {"jpg", "image/jpeg", ".jpg", jpeg_of},
                                             {"webp", "image/webp", ".webp", webp_of}};

}  // namespace

std::span<const PictureFormat> picture_formats() { return kPictureFormats; }

const PictureFormat& picture_format(std::string_view name) {
  std::string names;
  for (const PictureFormat& format : kPictureFormats) {
    if (format.name == name) return format;
    names += cat(names.empty() ? "" : ", ", format.name);
  }
  fail(ErrorKind::kInvalidInput, "expected a picture format out of ", names, ", got '", name, "'");
}

}  // namespace quaver
