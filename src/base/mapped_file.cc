#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace quaver {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(fd_ >= 0, ErrorKind::kNotFound, path.string(), ": can't be opened: ", std::strerror(errno));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

size_t regular_file_size(const Descriptor& file, const std::filesystem::path& path) {
  struct stat info = {};
  require(::fstat(file.get(), &info) == 0, ErrorKind::kBadFile, path.string(),
          ": size can't be read: ", std::strerror(errno));
  require(S_ISREG(info.st_mode), ErrorKind::kBadFile, path.string(), ": is not a regular file");
  return static_cast<size_t>(info.st_size);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  Descriptor file(path);
  std::shared_ptr<MappedFile> mapped(new MappedFile());
  mapped->path_ = path;
  mapped->size_bytes_ = regular_file_size(file, path);
  if (mapped->size_bytes_ == 0) return mapped;  // mmap refuses a length of zero
  void* address = ::mmap(nullptr, mapped->size_bytes_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  require(address != MAP_FAILED, ErrorKind::kOutOfMemory, path.string(),
          ": can't be mapped: ", std::strerror(errno));
  mapped->data_ = static_cast<const std::byte*>(address);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  Descriptor file(path);
  size_t size = regular_file_size(file, path);
  require(size <= max_bytes, ErrorKind::kBadFile, path.string(), ": is ", size, " bytes long, more than the ",
          max_bytes, " allowed");
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    ssize_t got = ::read(file.get(), text.data() + done, size - done);
    require(got > 0, ErrorKind::kBadFile, path.string(), ": reading stopped after ", done, " of ", size,
            " bytes");
    done += static_cast<size_t>(got);
  }
  return text;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::path partial = path;
  partial += cat(".", ::getpid(), ".partial");  // two processes may write the same file at once
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.flush();
    require(out.good(), ErrorKind::kBadFile, partial.string(), ": can't be written: ", std::strerror(errno));
  }
  std::filesystem::rename(partial, path);
}

}  // namespace quaver
