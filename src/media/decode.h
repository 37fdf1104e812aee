// Pictures from untrusted bytes: PNG, JPEG, WebP and GIF, told apart by what the bytes are and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "media/image.h"

namespace quaver {

// The most that one picture may be. Besides the bytes given, decoding holds 4 to 7 bytes a pixel, and 9 to 12
// for a progressive JPEG; whoever decodes several at once multiplies.
struct ImageLimits {
  int64_t max_pixels = int64_t{1} << 26;  // 67 million: 8192 x 8192
  size_t max_bytes = size_t{64} << 20;
};

// What a viewer shows: the EXIF orientation is applied (JPEG, PNG's eXIf, WebP), transparency is laid on
// white, of an animation it is the first frame. 16-bit samples v become v / 257, rounded. CMYK in JPEG is
// taken as inverted, as every writer of such files stores it. Colour profiles and gamma are ignored; an EXIF
// block that can't be read means upright.
//
// Width and height are held against the limit before anything is decoded or allocated for them. Damaged or
// cut-off pictures are refused whole. Throws Error(kInvalidInput), one sentence that begins with `what`.
// Thread safe, like the two below.
Image decode_image(std::span<const std::byte> bytes, std::string_view what, const ImageLimits& limits = {});

// The luma of the same picture, ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B, rounded.
GrayImage decode_mask(std::span<const std::byte> bytes, std::string_view what,
                      const ImageLimits& limits = {});

// How opaque each pixel is: 0 transparent, 255 opaque, as everywhere in a picture without transparency.
GrayImage decode_alpha(std::span<const std::byte> bytes, std::string_view what,
                       const ImageLimits& limits = {});

}  // namespace quaver
