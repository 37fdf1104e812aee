// JPEG through libjpeg: baseline and progressive, grey, colour and ink.
#include "media/exif.h"
#include "media/jpeg_errors.h"
#include "media/raster.h"

namespace quaver::media {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
// Encoders write about ten scans. Each one costs a walk over the whole picture, and a few bytes can ask for
// it.
constexpr int kMaxScans = 100;

// libjpeg's decompressor over bytes in memory.
class JpegReader {
 public:
  explicit JpegReader(const PictureSource& source) : source_(source) {
    jpeg_.err = &errors_.manager;
    run([this] { jpeg_create_decompress(&jpeg_); });
    progress_.progress_monitor = [](j_common_ptr jpeg) {
      if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans)
        JpegErrors::raise(jpeg, "it has more than 100 scans");
    };
    jpeg_.progress = &progress_;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  jpeg_decompress_struct& jpeg() { return jpeg_; }

  // Runs calls of libjpeg. Throws Error(kInvalidInput) with its reason when it gives up.
  template <class Body>
  void run(const Body& body) {
    require_sound(jpeg_succeeds(errors_, body), source_, "the JPEG is damaged: ", errors_.message);
  }

 private:
  const PictureSource& source_;
  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
};

int jpeg_orientation(const jpeg_decompress_struct& jpeg) {
  for (const auto* marker = jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const auto block = std::as_bytes(std::span(marker->data, marker->data_length));
    if (marker->marker == kExifMarker && is_exif(block)) return exif_orientation(block);
  }
  return 1;
}

// Inverted ink is light that passes: the share that a colour lets through times the share that black does.
void multiply_ink(Raster& raster) {
  const size_t pixels = raster.samples.size() / 4;
  uint8_t* samples = raster.samples.data();
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c)
      samples[3 * i + c] = static_cast<uint8_t>((samples[4 * i + c] * samples[4 * i + 3] + 127) / 255);
  raster.samples.resize(3 * pixels);
  raster.channels = 3;
}

}  // namespace

Raster read_jpeg(const PictureSource& source) {
  JpegReader reader(source);
  jpeg_decompress_struct& jpeg = reader.jpeg();
  reader.run([&] {
    jpeg_mem_src(&jpeg, source.data(), source.bytes.size());
    jpeg_save_markers(&jpeg, kExifMarker, 0xFFFF);
    jpeg_read_header(&jpeg, TRUE);
  });
  check_size(jpeg.image_width, jpeg.image_height, source);
  const bool ink = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = ink ? JCS_CMYK : JCS_RGB;
  reader.run([&] { jpeg_start_decompress(&jpeg); });
  Raster raster{.width = static_cast<int>(jpeg.output_width),
                .height = static_cast<int>(jpeg.output_height),
                .channels = ink ? 4 : 3,
                .orientation = jpeg_orientation(jpeg)};
  raster.reserve();
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = raster.add_row();
    reader.run([&] { jpeg_read_scanlines(&jpeg, &row, 1); });
  }
  reader.run([&] { jpeg_finish_decompress(&jpeg); });
  if (ink) multiply_ink(raster);
  return raster;
}

}  // namespace quaver::media
