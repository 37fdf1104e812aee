#include "checkpoint/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace quaver {
namespace {

constexpr size_t kMaxWrite = size_t{1} << 30;  // Linux writes at most 2 GiB at once

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), partial_(path) {
  partial_ += ".partial";
  fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  require(fd_ >= 0, ErrorKind::kBadFile, partial_.string(), ": can't be created: ", std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite));
    if (done < 0 && errno == EINTR) continue;
    require(done >= 0, ErrorKind::kBadFile, path_.string(), ": can't be written: ", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void OutputFile::commit(const std::function<void(const std::filesystem::path&)>& check) {
  if (::fsync(fd_) != 0) give_up(errno);
  if (check) check(partial_);
  if (::close(std::exchange(fd_, -1)) != 0) give_up(errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) give_up(errno);
}

void OutputFile::give_up(int reason) {
  ::unlink(partial_.c_str());
  fail(ErrorKind::kBadFile, path_.string(), ": can't be written: ", std::strerror(reason));
}

}  // namespace quaver
