// WebP through libwebp: lossy, lossless, with alpha; of an animation the first frame.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "media/exif.h"
#include "media/raster.h"

namespace quaver::media {
namespace {

using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;

// An iterator over frames, on the first.
class FirstFrame {
 public:
  FirstFrame(const WebPDemuxer* demuxer, const PictureSource& source) {
    require_sound(WebPDemuxGetFrame(demuxer, 1, &frame_) != 0, source, "the WebP holds no picture");
  }
  ~FirstFrame() { WebPDemuxReleaseIterator(&frame_); }
  FirstFrame(const FirstFrame&) = delete;
  FirstFrame& operator=(const FirstFrame&) = delete;

  const WebPIterator* operator->() const { return &frame_; }

 private:
  WebPIterator frame_{};
};

int webp_orientation(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk{};
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) == 0) return 1;
  const int orientation = exif_orientation(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size)));
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

// Around a frame that is smaller than the canvas everything is transparent.
void decode_frame(const FirstFrame& frame, const PictureSource& source, Raster& raster) {
  const int64_t right = int64_t{frame->x_offset} + frame->width,
                bottom = int64_t{frame->y_offset} + frame->height;
  require_sound(
      frame->x_offset >= 0 && frame->y_offset >= 0 && right <= raster.width && bottom <= raster.height,
      source, "the WebP is damaged: its first frame leaves the canvas");
  const size_t stride = size_t(raster.width) * 4;
  raster.samples.assign(stride * size_t(raster.height), 0);
  const size_t offset = size_t(frame->y_offset) * stride + size_t(frame->x_offset) * 4;
  const uint8_t* decoded =
      WebPDecodeRGBAInto(frame->fragment.bytes, frame->fragment.size, raster.samples.data() + offset,
                         raster.samples.size() - offset, static_cast<int>(stride));
  require_sound(decoded != nullptr, source, "the WebP is damaged: its picture can't be decoded");
}

}  // namespace

Raster read_webp(const PictureSource& source) {
  WebPBitstreamFeatures features;
  require_sound(WebPGetFeatures(source.data(), source.bytes.size(), &features) == VP8_STATUS_OK, source,
                "the WebP is damaged: its header can't be read");
  check_size(features.width, features.height, source);
  const WebPData data{source.data(), source.bytes.size()};
  const Demuxer demuxer(WebPDemux(&data), WebPDemuxDelete);
  require_sound(demuxer != nullptr, source,
                "the WebP is damaged: its chunks are cut off or don't fit together");
  const FirstFrame frame(demuxer.get(), source);
  Raster raster{.width = features.width,
                .height = features.height,
                .channels = 4,
                .orientation = webp_orientation(demuxer.get())};
  decode_frame(frame, source, raster);
  return raster;
}

}  // namespace quaver::media
