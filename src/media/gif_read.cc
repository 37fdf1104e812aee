// GIF through giflib: the first frame on its screen.
#include <gif_lib.h>

#include <array>
#include <cstring>
#include <memory>

#include "media/raster.h"

namespace quaver::media {
namespace {

struct ByteStream {
  std::span<const std::byte> rest;

  static int read(GifFileType* gif, GifByteType* out, int size) {
    auto& rest = static_cast<ByteStream*>(gif->UserData)->rest;
    const size_t count = std::min(static_cast<size_t>(size), rest.size());
    std::memcpy(out, rest.data(), count);
    rest = rest.subspan(count);
    return static_cast<int>(count);
  }
};

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

class GifReader {
 public:
  explicit GifReader(const PictureSource& source) : source_(source), stream_{source.bytes} {
    int code = 0;
    gif_.reset(DGifOpen(&stream_, ByteStream::read, &code));
    require_sound(gif_ != nullptr, source_, "the GIF is damaged: ", reason(code));
  }

  GifReader(const GifReader&) = delete;  // giflib holds the address of the stream
  GifReader& operator=(const GifReader&) = delete;

  GifFileType* operator->() const { return gif_.get(); }
  GifFileType* get() const { return gif_.get(); }
  const PictureSource& source() const { return source_; }

  // `status` is what a function of giflib returned.
  void require_ok(int status) const {
    require_sound(status == GIF_OK, source_, "the GIF is damaged: ", reason(gif_->Error));
  }

 private:
  static std::string_view reason(int code) {
    const char* text = GifErrorString(code);
    return text == nullptr ? "the data ends too soon" : text;
  }

  const PictureSource& source_;
  ByteStream stream_;
  std::unique_ptr<GifFileType, CloseGif> gif_;
};

// Reads one extension and leaves what it says of transparency in `transparent`.
void read_extension(const GifReader& gif, int& transparent) {
  int kind = 0;
  GifByteType* block = nullptr;  // its first byte is its length
  gif.require_ok(DGifGetExtension(gif.get(), &kind, &block));
  GraphicsControlBlock control;
  if (kind == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
      DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
    transparent = control.TransparentColor;
  while (block != nullptr) gif.require_ok(DGifGetExtensionNext(gif.get(), &block));
}

// Moves on to the first frame and reads its header. Returns the palette index that is transparent, -1 for
// none.
int find_first_frame(const GifReader& gif) {
  int transparent = NO_TRANSPARENT_COLOR;
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    gif.require_ok(DGifGetRecordType(gif.get(), &record));
    require_sound(record != TERMINATE_RECORD_TYPE, gif.source(), "the GIF holds no picture");
    if (record == EXTENSION_RECORD_TYPE) read_extension(gif, transparent);
    if (record != IMAGE_DESC_RECORD_TYPE) continue;
    gif.require_ok(DGifGetImageDesc(gif.get()));
    return transparent;
  }
}

using Palette = std::vector<std::array<uint8_t, 4>>;  // RGBA

Palette palette_of(const GifReader& gif, int transparent) {
  const ColorMapObject* map = gif->Image.ColorMap != nullptr ? gif->Image.ColorMap : gif->SColorMap;
  require_sound(map != nullptr, gif.source(), "the GIF has no palette");
  Palette palette;
  for (int i = 0; i < map->ColorCount; ++i) {
    const GifColorType& color = map->Colors[i];
    palette.push_back({color.Red, color.Green, color.Blue, static_cast<uint8_t>(i == transparent ? 0 : 255)});
  }
  return palette;
}

// Palette indices in the order of the file, which grow only as the data yields them.
std::vector<uint8_t> read_indices(const GifReader& gif) {  // [rows as stored, width]
  const size_t width = size_t(gif->Image.Width), height = size_t(gif->Image.Height);
  std::vector<uint8_t> indices;
  indices.reserve(width * height);
  for (size_t i = 0; i < height; ++i) {
    indices.resize(indices.size() + width);
    gif.require_ok(DGifGetLine(gif.get(), &indices[i * width], static_cast<int>(width)));
  }
  return indices;
}

// The row of the picture that each stored row is (GIF89a, appendix E).
std::vector<int> row_order(int height, bool interlaced) {
  std::vector<int> order;
  const auto add = [&](int first, int step) {
    for (int y = first; y < height; y += step) order.push_back(y);
  };
  if (!interlaced) {
    add(0, 1);
  } else {
    add(0, 8);
    add(4, 8);
    add(2, 4);
    add(1, 2);
  }
  return order;
}

// Around a frame that is smaller than the screen everything is transparent.
void place_frame(const GifReader& gif, const Palette& palette, std::span<const uint8_t> indices,
                 Raster& raster) {
  const GifImageDesc& frame = gif->Image;
  raster.samples.assign(size_t(raster.width) * size_t(raster.height) * 4, 0);
  const uint8_t* index = indices.data();
  for (const int y : row_order(frame.Height, frame.Interlace)) {
    uint8_t* out = &raster.samples[(size_t(frame.Top + y) * size_t(raster.width) + size_t(frame.Left)) * 4];
    for (int x = 0; x < frame.Width; ++x, out += 4, ++index) {
      require_sound(*index < palette.size(), gif.source(), "the GIF is damaged: palette index ", *index,
                    " of ", palette.size(), " colours");
      std::memcpy(out, palette[*index].data(), 4);
    }
  }
}

}  // namespace

Raster read_gif(const PictureSource& source) {
  const GifReader gif(source);
  check_size(gif->SWidth, gif->SHeight, source);
  const int transparent = find_first_frame(gif);
  const GifImageDesc& frame = gif->Image;
  require_sound(frame.Left + frame.Width <= gif->SWidth && frame.Top + frame.Height <= gif->SHeight, source,
                "the GIF is damaged: its first frame is ", frame.Width, " x ", frame.Height, " at ",
                frame.Left, ", ", frame.Top, " on a screen of ", gif->SWidth, " x ", gif->SHeight);
  check_size(frame.Width, frame.Height, source);
  const Palette palette = palette_of(gif, transparent);
  Raster raster{.width = gif->SWidth, .height = gif->SHeight, .channels = 4};
  place_frame(gif, palette, read_indices(gif), raster);
  return raster;
}

}  // namespace quaver::media
