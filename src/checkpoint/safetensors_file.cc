#include "checkpoint/safetensors_file.h"

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
  release_pages(file_->bytes().subspan(entry.offset, entry.info.size_bytes));
}

}  // namespace quaver
