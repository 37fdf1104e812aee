// PNG out of libpng.
#include <algorithm>
#include <new>
#include <string>

#include "base/error.h"
#include "media/encode.h"
#include "media/png_errors.h"

namespace quaver {
namespace media {
namespace {

class PngWriter {
 public:
  PngWriter() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::raise, PngErrors::ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_write_struct(&png_, nullptr);
    fail(ErrorKind::kOutOfMemory, "no memory for writing a PNG");
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

  template <class Body>
  void run(const Body& body) {
    require(png_succeeds(png_, body), ErrorKind::kInvalidInput,
            "the picture can't be written as PNG: ", errors_.message);
  }

  // To be called within run().
  void begin() { png_set_write_fn(png_, this, append, nullptr); }

 private:
  static bool appended(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
    try {
      bytes.insert(bytes.end(), more.begin(), more.end());
    } catch (const std::bad_alloc&) {  // may not pass through libpng
      return false;
    }
    return true;
  }
  static void append(png_structp png, png_bytep data, size_t size) {
    auto* self = static_cast<PngWriter*>(png_get_io_ptr(png));
    if (!appended(self->bytes_, std::as_bytes(std::span(data, size)))) png_error(png, "there is no memory");
  }

  std::vector<std::byte> bytes_;
  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

bool printable_ascii(char c) { return c >= ' ' && c <= '~'; }

void check_text(const std::string& keyword, const std::string& value) {
  const bool sound = !keyword.empty() && keyword.size() <= 79 && keyword.front() != ' ' &&
                     keyword.back() != ' ' && std::all_of(keyword.begin(), keyword.end(), printable_ascii);
  require(sound, ErrorKind::kInvalidInput,
          "a keyword in a PNG is 1 to 79 printable ASCII characters without space at the ends, got ",
          keyword.size(), " bytes that are not");
  require(value.find('\0') == std::string::npos, ErrorKind::kInvalidInput, "the text of '", keyword,
          "' in a PNG may hold no NUL");
}

png_text text_chunk(const std::string& keyword, const std::string& value) {
  const bool ascii = std::none_of(value.begin(), value.end(), [](char c) { return (c & 0x80) != 0; });
  png_text chunk{};
  chunk.compression = ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
  chunk.key = const_cast<char*>(keyword.c_str());  // libpng copies them
  chunk.text = const_cast<char*>(value.c_str());
  (ascii ? chunk.text_length : chunk.itxt_length) = value.size();
  return chunk;
}

void write_header(PngWriter& writer, const Image& image, const std::vector<png_text>& texts) {
  writer.run([&] {
    writer.begin();
    png_set_user_limits(writer.png(), PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(writer.png(), writer.info(), static_cast<png_uint_32>(image.width),
                 static_cast<png_uint_32>(image.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!texts.empty())
      png_set_text(writer.png(), writer.info(), texts.data(), static_cast<int>(texts.size()));
    png_write_info(writer.png(), writer.info());
  });
}

}  // namespace
}  // namespace media

std::vector<std::byte> encode_png(const Image& image, const TextMetadata& text) {
  std::vector<png_text> texts;
  for (const auto& [keyword, value] : text) {
    media::check_text(keyword, value);
    texts.push_back(media::text_chunk(keyword, value));
  }
  media::PngWriter writer;
  media::write_header(writer, image, texts);
  const size_t row = size_t(image.width) * 3;
  for (size_t y = 0; y < size_t(image.height); ++y)
    writer.run([&] { png_write_row(writer.png(), image.rgb.data() + y * row); });
  writer.run([&] { png_write_end(writer.png(), nullptr); });
  return writer.take();
}

}  // namespace quaver
