#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace quaver::hub {
namespace {

int open_lock(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  require(fd >= 0, ErrorKind::kBadFile, path.string(), ": can't be created: ", std::strerror(errno));
  return fd;
}

// Some holders delete the file when they are done: a lock on what has no name any more guards nothing.
bool still_named(int fd, const std::filesystem::path& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

void lock(int fd, const std::filesystem::path& path, std::string_view what) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) log_info(what, ": another process downloads it; waiting");
  int result = 0;
  do result = ::flock(fd, LOCK_EX);
  while (result != 0 && errno == EINTR);
  require(result == 0, ErrorKind::kBadFile, path.string(), ": can't be locked: ", std::strerror(errno));
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, std::string_view what) {
  for (;;) {
    fd_ = open_lock(path);
    try {
      lock(fd_, path, what);
    } catch (...) {
      ::close(fd_);
      throw;
    }
    if (still_named(fd_, path)) return;
    ::close(fd_);
  }
}

FileLock::~FileLock() { ::close(fd_); }

}  // namespace quaver::hub
