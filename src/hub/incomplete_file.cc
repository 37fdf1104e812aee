#include "hub/incomplete_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace quaver::hub {

namespace fs = std::filesystem;

IncompleteFile::IncompleteFile(fs::path blob, std::string checksum, uint64_t size_bytes)
    : blob_(std::move(blob)),
      path_(blob_),
      expected_(std::move(checksum)),
      size_bytes_(size_bytes),
      hasher_(expected_, size_bytes_) {
  path_ += ".incomplete";
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(fd_ >= 0, ErrorKind::kBadFile, path_.string(), ": can't be created: ", std::strerror(errno));
  std::vector<std::byte> piece(size_t{1} << 20);
  for (ssize_t got; (got = ::read(fd_, piece.data(), piece.size())) > 0;) {
    hasher_.update(std::span(piece).first(static_cast<size_t>(got)));
    length_ += static_cast<uint64_t>(got);
  }
  if (length_ > size_bytes_) restart();
}

IncompleteFile::~IncompleteFile() {
  if (fd_ >= 0) ::close(fd_);
}

void IncompleteFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    require(done > 0, ErrorKind::kBadFile, path_.string(), ": can't be written: ", std::strerror(errno));
    hasher_.update(bytes.first(static_cast<size_t>(done)));
    length_ += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void IncompleteFile::restart() {
  require(::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0, ErrorKind::kBadFile, path_.string(),
          ": can't be emptied: ", std::strerror(errno));
  hasher_ = Hasher(expected_, size_bytes_);
  length_ = 0;
}

std::string IncompleteFile::checksum() { return hasher_.finish(); }

void IncompleteFile::discard() { ::unlink(path_.c_str()); }

void IncompleteFile::commit() {
  bool flushed = ::fsync(fd_) == 0;
  require(flushed && ::rename(path_.c_str(), blob_.c_str()) == 0, ErrorKind::kBadFile, blob_.string(),
          ": can't be written: ", std::strerror(errno));
}

}  // namespace quaver::hub
