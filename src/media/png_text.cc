// Text chunks through libpng.
#include "media/png_text.h"

#include "media/png_reader.h"

namespace quaver {
namespace {

// What tEXt and zTXt hold, and all keywords.
std::string utf8_of_latin1(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<uint8_t>(c);
    if (code < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xC0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return out;
}

std::string text_of(const png_text& chunk) {
  const bool utf8 = chunk.compression >= PNG_ITXT_COMPRESSION_NONE;
  if (utf8) return std::string(chunk.text, chunk.itxt_length);
  return utf8_of_latin1({chunk.text, chunk.text_length});
}

}  // namespace

TextMetadata read_png_text(std::span<const std::byte> bytes, std::string_view what) {
  const ImageLimits limits;
  const media::PictureSource source{bytes, what, limits};
  media::PngReader reader(source);
  reader.run([&] {
    reader.begin();
    png_set_benign_errors(reader.png(), 0);  // a text that can't be read would be left out
    png_set_chunk_malloc_max(reader.png(), kMaxPngTextBytes);
    png_read_info(reader.png(), reader.info());
  });
  png_textp chunks = nullptr;
  int count = 0;
  png_get_text(reader.png(), reader.info(), &chunks, &count);
  TextMetadata metadata;
  for (const png_text& chunk : std::span(chunks, static_cast<size_t>(count)))
    metadata.emplace_back(utf8_of_latin1(chunk.key), text_of(chunk));
  return metadata;
}

}  // namespace quaver
