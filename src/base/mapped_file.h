// A file as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace quaver {

// Read-only mapping of a whole regular file. Immutable, so safe to share among threads. A file that
// shrinks while mapped raises SIGBUS on access, as with any mapping.
class MappedFile {
 public:
  // Throws Error(kNotFound) when the file can't be opened, kBadFile when it is not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::filesystem::path path_;
};

// Reads a whole regular file. Throws Error(kNotFound) when it can't be opened, kBadFile when it is longer
// than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes);

// Writes beside the target and renames, so that a reader sees the old file or the whole new one.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace quaver
