// Where a command's pictures go: their names, the format that the name's ending asks for.
#pragma once

#include <cstdint>
#include <filesystem>

#include "media/encode.h"

namespace quaver::apps {

class PictureFiles {
 public:
  // For one picture `output` itself; for more, "cat-0.png", "cat-1.png" and so on for "cat.png". Files that
  // exist are replaced. Error(kInvalidInput) for endings that no format has, Error(kNotFound) when there is
  // no such folder.
  PictureFiles(const std::filesystem::path& output, int64_t count);

  std::filesystem::path path(int64_t index) const;
  // The file appears when it is complete. Formats other than PNG leave out the text.
  void write(int64_t index, const Image& image, const TextMetadata& text) const;

 private:
  std::filesystem::path output_;
  int64_t count_;
  const PictureFormat* format_;
};

}  // namespace quaver::apps
