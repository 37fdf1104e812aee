#include "checkpoint/file_holes.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

struct Range {
  uint64_t begin, end;
};

// lseek reports the implicit hole at the end of the file too, where begin == end.
std::vector<Range> holes_of(const std::filesystem::path& path) {
  std::vector<Range> holes;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return holes;
  off_t size = ::lseek(fd, 0, SEEK_END);
  for (off_t at = 0; at >= 0 && at < size;) {
    off_t begin = ::lseek(fd, at, SEEK_HOLE);
    if (begin < 0 || begin >= size) break;
    off_t end = ::lseek(fd, begin, SEEK_DATA);
    if (end < 0) end = size;  // ENXIO: nothing but hole up to the end
    holes.push_back({static_cast<uint64_t>(begin), static_cast<uint64_t>(end)});
    at = end;
  }
  ::close(fd);
  return holes;
}

}  // namespace

std::vector<std::string> tensors_in_holes(const std::filesystem::path& file,
                                          const std::vector<TensorRange>& tensors) {
  std::vector<std::string> touched;
  std::vector<Range> holes = holes_of(file);
  if (holes.empty()) return touched;
  for (const TensorRange& tensor : tensors) {
    for (const Range& hole : holes) {
      if (tensor.offset >= hole.end || tensor.offset + tensor.size_bytes <= hole.begin) continue;
      touched.emplace_back(tensor.name);
      break;
    }
  }
  return touched;
}

void warn_about_holes(const std::filesystem::path& file, const std::vector<TensorRange>& tensors) {
  auto touched = tensors_in_holes(file, tensors);
  if (touched.empty()) return;
  log_warning(
      file.string(), ": ", touched.size(), " tensors, ", printable(touched.front()),
      " among them, lie in parts of the file that were never written and read as zeros; if the download was "
      "interrupted, fetch the file again");
}

}  // namespace quaver
