// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace quaver {

// Writes "<path>.partial"; `commit` flushes it to the disk and renames it, after `check` has read what stands
// there, where one is given. Destroyed before that, or when the check throws, it leaves nothing. Errors (a
// full disk, say) are Error(kBadFile) naming the path.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit(const std::function<void(const std::filesystem::path& partial)>& check = {});

 private:
  [[noreturn]] void give_up(int reason);

  std::filesystem::path path_, partial_;
  int fd_ = -1;
};

}  // namespace quaver
