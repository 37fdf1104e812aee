// From the kind of picture to an upright opaque image.
#include "media/decode.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "media/raster.h"

namespace quaver {
namespace media {
namespace {

struct PictureKind {
  bool (*matches)(std::string_view bytes);
  Raster (*read)(const PictureSource& source);
};

constexpr PictureKind kPictureKinds[] = {
    {[](std::string_view b) { return b.starts_with("\x89PNG\r\n\x1A\n"); }, read_png},
    {[](std::string_view b) { return b.starts_with("\xFF\xD8\xFF"); }, read_jpeg},
    {[](std::string_view b) {
       return b.starts_with("RIFF") && b.substr(std::min<size_t>(8, b.size())).starts_with("WEBP");
     },
     read_webp},
    {[](std::string_view b) { return b.starts_with("GIF87a") || b.starts_with("GIF89a"); }, read_gif},
};

std::string first_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 8)) {
    char hex[4];
    std::snprintf(hex, sizeof hex, " %02x", static_cast<uint8_t>(c));
    text += hex;
  }
  return text;
}

Raster read_picture(const PictureSource& source) {
  require_sound(!source.bytes.empty(), source, "expected a picture, got 0 bytes");
  require_sound(source.bytes.size() <= source.limits.max_bytes, source, "the picture has ",
                source.bytes.size(), " bytes, more than the ", source.limits.max_bytes, " allowed");
  const std::string_view bytes(reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size());
  for (const PictureKind& kind : kPictureKinds)
    if (kind.matches(bytes)) return kind.read(source);
  fail(ErrorKind::kInvalidInput, source.what,
       ": expected a PNG, JPEG, WebP or GIF picture, got bytes that begin", first_bytes(bytes));
}

// RGBA becomes RGB, each pixel rounded.
void lay_on_white(Raster& raster) {
  if (raster.channels == 3) return;
  const size_t pixels = raster.samples.size() / 4;
  uint8_t* samples = raster.samples.data();
  for (size_t i = 0; i < pixels; ++i) {
    const unsigned alpha = samples[4 * i + 3];
    for (size_t c = 0; c < 3; ++c)
      samples[3 * i + c] =
          static_cast<uint8_t>((samples[4 * i + c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  raster.samples.resize(3 * pixels);
  raster.channels = 3;
}

// The plane of opacity alone.
void keep_alpha(Raster& raster) {
  const size_t pixels = size_t(raster.width) * size_t(raster.height);
  if (raster.channels == 3) {
    raster.samples.assign(pixels, 255);
  } else {
    for (size_t i = 0; i < pixels; ++i) raster.samples[i] = raster.samples[4 * i + 3];
    raster.samples.resize(pixels);
  }
  raster.channels = 1;
}

// Turns the raster so that orientation 1 fits it. EXIF says where row 0 and column 0 of the stored picture
// lie in the upright one; from 5 on they have changed places.
void make_upright(Raster& raster) {
  const int o = raster.orientation;
  if (o == 1) return;
  const bool swapped = o >= 5, from_right = o == 2 || o == 3 || o == 7 || o == 8,
             from_bottom = o == 3 || o == 4 || o == 6 || o == 7;
  const auto channels = static_cast<ptrdiff_t>(raster.channels), row = raster.width * channels;
  const ptrdiff_t along_column = from_right ? -channels : channels, along_row = from_bottom ? -row : row;
  const uint8_t* corner = raster.samples.data() + (from_right ? row - channels : 0) +
                          (from_bottom ? (raster.height - 1) * row : 0);
  if (swapped) std::swap(raster.width, raster.height);
  const ptrdiff_t step_x = swapped ? along_row : along_column, step_y = swapped ? along_column : along_row;
  std::vector<uint8_t> upright(raster.samples.size());
  uint8_t* out = upright.data();
  for (ptrdiff_t y = 0; y < raster.height; ++y)
    for (ptrdiff_t x = 0; x < raster.width; ++x, out += channels)
      std::memcpy(out, corner + y * step_y + x * step_x, static_cast<size_t>(channels));
  raster.samples = std::move(upright);
  raster.orientation = 1;
}

}  // namespace

void check_size(int64_t width, int64_t height, const PictureSource& source) {
  require_sound(width > 0 && height > 0, source, "the picture is ", width, " x ", height, " pixels");
  require_sound(width <= source.limits.max_pixels / height, source, "the picture is ", width, " x ", height,
                " pixels, more than the ", source.limits.max_pixels, " allowed");
}

}  // namespace media

Image decode_image(std::span<const std::byte> bytes, std::string_view what, const ImageLimits& limits) {
  media::Raster raster = media::read_picture({bytes, what, limits});
  media::lay_on_white(raster);
  media::make_upright(raster);
  return {raster.width, raster.height, std::move(raster.samples)};
}

GrayImage decode_mask(std::span<const std::byte> bytes, std::string_view what, const ImageLimits& limits) {
  Image image = decode_image(bytes, what, limits);
  // The weights times 2^16; they sum to 2^16, so grey stays what it is.
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 0x8000;
  std::vector<uint8_t>& samples = image.rgb;
  const size_t pixels = samples.size() / 3;
  for (size_t i = 0; i < pixels; ++i)
    samples[i] = static_cast<uint8_t>(
        (kRed * samples[3 * i] + kGreen * samples[3 * i + 1] + kBlue * samples[3 * i + 2] + kHalf) >> 16);
  samples.resize(pixels);
  return {image.width, image.height, std::move(samples)};
}

GrayImage decode_alpha(std::span<const std::byte> bytes, std::string_view what, const ImageLimits& limits) {
  media::Raster raster = media::read_picture({bytes, what, limits});
  media::keep_alpha(raster);
  media::make_upright(raster);
  return {raster.width, raster.height, std::move(raster.samples)};
}

}  // namespace quaver
