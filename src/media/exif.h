// The one thing that pictures are asked in EXIF: how the camera was held.
#pragma once

#include <cstddef>
#include <span>

namespace quaver::media {

// 1 to 8 of tag 0x0112 in the first directory (EXIF 2.32, section 4.6.4); 1 when the block has none or can't
// be read. `block` begins with a TIFF header, with or without "Exif\0\0" before it.
int exif_orientation(std::span<const std::byte> block);

// Begins with "Exif\0\0"; JPEG keeps other things (XMP) in segments of the same kind.
bool is_exif(std::span<const std::byte> block);

}  // namespace quaver::media
