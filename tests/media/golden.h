// The small pictures that Pillow wrote, and what Pillow made of them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/scratch_folder.h"
#include "media/decode.h"
#include "media/image.h"

namespace quaver::testing {

inline std::filesystem::path media_golden(std::string_view name) {
  return std::filesystem::path(QUAVER_TEST_DATA) / "golden/media" / name;
}

inline std::string picture_file(std::string_view name) {
  return read_text_file(media_golden("pictures") / name, 1 << 20);
}

inline std::vector<std::string> picture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(media_golden("pictures")))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::span<const std::byte> bytes_in(std::string_view text) { return std::as_bytes(std::span(text)); }

inline Image golden_image(const SafetensorsFile& file, std::string_view name) {
  const TensorView view = file.read(name);
  const auto samples = view.data.as<uint8_t>();
  return {static_cast<int>(view.shape[1]), static_cast<int>(view.shape[0]), {samples.begin(), samples.end()}};
}

inline GrayImage golden_gray(const SafetensorsFile& file, std::string_view name) {
  const TensorView view = file.read(name);
  const auto samples = view.data.as<uint8_t>();
  return {static_cast<int>(view.shape[1]), static_cast<int>(view.shape[0]), {samples.begin(), samples.end()}};
}

// Where the data of the frame ends, in a file that Pillow wrote: a decoder needs nothing behind it.
inline size_t end_of_first_gif_frame(std::string_view file) {
  size_t at =
      file.find(std::string_view("\x2C", 1), 13 + 3 * (size_t{2} << (file[10] & 7)));  // image separator
  at += 10 + (file[at + 9] & 0x80 ? 3 * (size_t{2} << (file[at + 9] & 7)) : 0) + 1;
  while (file[at] != 0) at += 1 + static_cast<uint8_t>(file[at]);
  return at + 1;
}

// What decode_image says of bytes that it must refuse: the message, empty when it took them.
inline std::string refusal(std::string_view bytes, const ImageLimits& limits = {}) {
  const Caught caught = catch_error([&] { decode_image(bytes_in(bytes), "body.image", limits); });
  return caught.kind == ErrorKind::kInvalidInput || caught.message.empty()
             ? caught.message
             : cat("of another kind: ", caught.message);
}

}  // namespace quaver::testing
