// libpng's reader over bytes in memory, for pixels and for text.
#pragma once

#include <cstring>

#include "media/png_errors.h"
#include "media/raster.h"

namespace quaver::media {

// True when a signature and chunks up to the last one, IEND, lie inside the bytes. libpng allocates what a
// chunk's length says before it reads the chunk.
inline bool png_chunks_are_whole(std::span<const std::byte> bytes) {
  constexpr size_t kSignatureBytes = 8, kAroundData = 12;  // length, type, checksum
  for (size_t at = kSignatureBytes; at <= bytes.size() && bytes.size() - at >= kAroundData;) {
    const auto* chunk = reinterpret_cast<png_const_bytep>(bytes.data() + at);
    const size_t length = png_get_uint_32(chunk);
    if (length > bytes.size() - at - kAroundData) return false;
    if (std::memcmp(chunk + 4, "IEND", 4) == 0) return true;
    at += length + kAroundData;
  }
  return false;
}

class PngReader {
 public:
  // Throws Error(kInvalidInput) when the data is cut off.
  explicit PngReader(const PictureSource& source) : source_(source), rest_(source.bytes) {
    require_sound(png_chunks_are_whole(source.bytes), source, "the PNG is damaged: the data ends too soon");
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::raise, PngErrors::ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_read_struct(&png_, nullptr, nullptr);
    fail(ErrorKind::kOutOfMemory, source.what, ": no memory for reading a PNG");
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

  // Runs calls of libpng. Throws Error(kInvalidInput) with its reason when it gives up.
  template <class Body>
  void run(const Body& body) {
    require_sound(png_succeeds(png_, body), source_, "the PNG is damaged: ", errors_.message);
  }

  // To be called within run().
  void begin() {
    png_set_read_fn(png_, this, copy_bytes);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size has the say
  }

 private:
  static void copy_bytes(png_structp png, png_bytep out, size_t size) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self->rest_.size()) png_error(png, "the data ends too soon");
    std::memcpy(out, self->rest_.data(), size);
    self->rest_ = self->rest_.subspan(size);
  }

  const PictureSource& source_;
  std::span<const std::byte> rest_;
  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace quaver::media
