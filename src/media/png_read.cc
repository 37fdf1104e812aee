// PNG through libpng: every colour type and depth to 8-bit RGB or RGBA.
#include "media/exif.h"
#include "media/png_reader.h"

namespace quaver::media {
namespace {

// Of the chunks that a picture can do without, only transparency and EXIF are looked at: the others may
// inflate to any size.
void skip_other_chunks(png_structp png) {
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);
}

// Returns the number of passes over the rows.
int ask_for_8_bit_colour(png_structp png, png_infop info) {
  png_set_expand(png);    // palettes, depths below 8 and tRNS
  png_set_scale_16(png);  // v / 257, rounded
  png_set_gray_to_rgb(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return passes;
}

void read_png_rows(PngReader& reader, int passes, Raster& raster) {
  const auto read_row = [&](uint8_t* row) { reader.run([&] { png_read_row(reader.png(), row, nullptr); }); };
  for (int y = 0; y < raster.height; ++y) read_row(raster.add_row());
  const size_t row_bytes = raster.samples.size() / static_cast<size_t>(raster.height);
  for (int pass = 1; pass < passes; ++pass)
    for (int y = 0; y < raster.height; ++y)
      read_row(raster.samples.data() + static_cast<size_t>(y) * row_bytes);
}

int png_orientation(const PngReader& reader) {
  png_uint_32 size = 0;
  png_bytep block = nullptr;
  if (png_get_eXIf_1(reader.png(), reader.info(), &size, &block) == 0) return 1;
  return exif_orientation(std::as_bytes(std::span(block, size)));
}

}  // namespace

Raster read_png(const PictureSource& source) {
  PngReader reader(source);
  reader.run([&] {
    reader.begin();
    skip_other_chunks(reader.png());
    png_read_info(reader.png(), reader.info());
  });
  const png_uint_32 width = png_get_image_width(reader.png(), reader.info());
  const png_uint_32 height = png_get_image_height(reader.png(), reader.info());
  check_size(width, height, source);
  int passes = 1;
  reader.run([&] { passes = ask_for_8_bit_colour(reader.png(), reader.info()); });
  Raster raster{.width = static_cast<int>(width),
                .height = static_cast<int>(height),
                .channels = png_get_channels(reader.png(), reader.info())};
  require(png_get_rowbytes(reader.png(), reader.info()) == size_t(width) * size_t(raster.channels),
          ErrorKind::kInternal, source.what, ": libpng's rows are not of 8-bit samples");
  raster.reserve();
  read_png_rows(reader, passes, raster);
  reader.run([&] { png_read_end(reader.png(), reader.info()); });
  raster.orientation = png_orientation(reader);
  return raster;
}

}  // namespace quaver::media
