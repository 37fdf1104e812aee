// libpng's reader over bytes in memory, for pixels and for text.
#pragma once

#include <cstring>

#include "media/png_errors.h"
#include "media/raster.h"

namespace quaver::media {

class PngReader {
 public:
  explicit PngReader(const PictureSource& source) : source_(source), rest_(source.bytes) {
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
