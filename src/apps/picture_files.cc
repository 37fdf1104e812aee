#include "apps/picture_files.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/error.h"
#include "checkpoint/output_file.h"

namespace quaver::apps {
namespace {

const PictureFormat& format_of(const std::filesystem::path& output) {
  std::string name = output.extension().string();
  name.erase(0, 1);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  try {
    return picture_format(name);
  } catch (const Error& error) {
    fail(ErrorKind::kInvalidInput, "--output ", output.string(), ": ", error.what(), " as its ending");
  }
}

}  // namespace

PictureFiles::PictureFiles(const std::filesystem::path& output, int64_t count)
    : output_(output), count_(count), format_(&format_of(output)) {
  const std::filesystem::path folder = output.has_parent_path() ? output.parent_path() : ".";
  require(std::filesystem::is_directory(folder), ErrorKind::kNotFound, "--output ", output.string(), ": ",
          folder.string(), " is no folder");
}

std::filesystem::path PictureFiles::path(int64_t index) const {
  if (count_ == 1) return output_;
  return output_.parent_path() / cat(output_.stem().string(), "-", index, output_.extension().string());
}

void PictureFiles::write(int64_t index, const Image& image, const TextMetadata& text) const {
  OutputFile file(path(index));
  file.write(format_->encode(image, {.text = text}));
  file.commit();
}

}  // namespace quaver::apps
