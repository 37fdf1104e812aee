// A lock between processes on one file of the cache, understood by huggingface_hub too (flock).
#pragma once

#include <filesystem>
#include <string_view>

namespace quaver::hub {

// Held from construction to destruction; the system frees it when the process dies. Waits for another holder
// and says in the log for what (`what`). The lock file stays. Error(kBadFile) when it can't be made.
class FileLock {
 public:
  FileLock(const std::filesystem::path& path, std::string_view what);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace quaver::hub
