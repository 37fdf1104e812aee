// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace quaver {

// Writes "<path>.partial"; `commit` flushes it to the disk and renames it. Destroyed before that, it leaves
// nothing. Errors (a full disk, say) are Error(kBadFile) naming the path.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path path_, partial_;
  int fd_ = -1;
};

}  // namespace quaver
