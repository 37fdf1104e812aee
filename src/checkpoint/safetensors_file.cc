#include "checkpoint/safetensors_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "checkpoint/mapped_tensor.h"
#include "checkpoint/printable.h"

namespace quaver {

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile opened;
  opened.file_ = MappedFile::open(path);
  opened.header_ = parse_safetensors_header(opened.file_->bytes(), path.string());
  return opened;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  auto it =
      std::lower_bound(entries().begin(), entries().end(), name,
                       [](const auto& entry, std::string_view wanted) { return entry.info.name < wanted; });
  return it != entries().end() && it->info.name == name ? &*it : nullptr;
}

TensorView SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  require(entry != nullptr, ErrorKind::kNotFound, path().string(), ": has no tensor ", printable(name));
  return read(*entry);
}

TensorView SafetensorsFile::read(const SafetensorsEntry& entry) const {
  return mapped_tensor(entry.info, file_->bytes().subspan(entry.offset, entry.info.size_bytes), file_);
}

void SafetensorsFile::release(const SafetensorsEntry& entry) const {
  auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t begin = (entry.offset + page - 1) / page * page;
  uint64_t end = (entry.offset + entry.info.size_bytes) / page * page;
  if (begin >= end) return;
  void* address = const_cast<std::byte*>(file_->bytes().data() + begin);
  ::madvise(address, end - begin, MADV_DONTNEED);  // a failure costs memory only
}

}  // namespace quaver
