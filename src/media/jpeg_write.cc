// JPEG out of libjpeg.
#include <cstdlib>

#include "base/error.h"
#include "media/encode.h"
#include "media/jpeg_errors.h"

namespace quaver {
namespace media {
namespace {

// libjpeg's compressor into memory that it allocates.
class JpegWriter {
 public:
  JpegWriter() {
    jpeg_.err = &errors_.manager;
    run([this] {
      jpeg_create_compress(&jpeg_);
      jpeg_mem_dest(&jpeg_, &bytes_, &size_);
    });
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&jpeg_);
    std::free(bytes_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  jpeg_compress_struct& jpeg() { return jpeg_; }

  // Valid after jpeg_finish_compress.
  std::vector<std::byte> bytes() const {
    const auto* first = reinterpret_cast<const std::byte*>(bytes_);
    return {first, first + size_};
  }

  template <class Body>
  void run(const Body& body) {
    require(jpeg_succeeds(errors_, body), ErrorKind::kInvalidInput,
            "the picture can't be written as JPEG: ", errors_.message);
  }

 private:
  JpegErrors errors_;
  jpeg_compress_struct jpeg_{};
  unsigned char* bytes_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace
}  // namespace media

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  require(quality >= 0 && quality <= 100, ErrorKind::kInvalidInput, "the quality of a JPEG is 0 to 100, got ",
          quality);
  media::JpegWriter writer;
  jpeg_compress_struct& jpeg = writer.jpeg();
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  writer.run([&] {
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
  });
  const size_t row_size = size_t(image.width) * 3;
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.rgb.data() + jpeg.next_scanline * row_size);  // is only read
    writer.run([&] { jpeg_write_scanlines(&jpeg, &row, 1); });
  }
  writer.run([&] { jpeg_finish_compress(&jpeg); });
  return writer.bytes();
}

}  // namespace quaver
