// One safetensors file, mapped into memory.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/safetensors_header.h"

namespace quaver {

// Immutable, safe to read from many threads.
class SafetensorsFile {
 public:
  // Checks the whole header against the file. Throws Error(kNotFound) when it can't be opened, kBadFile
  // naming file and tensor when it is not a sound safetensors file.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Null when there is none of that name.
  const SafetensorsEntry* find(std::string_view name) const;

  // Throws Error(kNotFound) when there is none of that name. The view holds the mapping; a tensor that does
  // not lie on a multiple of its element's size in the file is copied instead.
  TensorView read(std::string_view name) const;
  TensorView read(const SafetensorsEntry& entry) const;

  // Lets the pages that hold nothing but this tensor leave the resident set; views stay valid and read them
  // again.
  void release(const SafetensorsEntry& entry) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
};

}  // namespace quaver
