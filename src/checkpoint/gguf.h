// One GGUF file (version 2 or 3): its metadata with types, and its tensors, mapped into memory.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_value.h"

namespace quaver {

struct GgufEntry {
  TensorInfo
      info;  // shape row-major, slowest extent first ([out, in] of a matrix): the file's order reversed
  uint64_t offset = 0;  // from the start of the file
};

struct GgufContents {
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::map<std::string, GgufValue, std::less<>> metadata;  // borrows from the bytes parsed
  std::vector<GgufEntry> entries;  // sorted by name; empty in a file that has a vocabulary only
};

// `file` is the whole file, `what` its name for messages. Every count, length, extent and offset is held
// against the file's size before it is used. Throws Error(kBadFile); kUnsupported for versions, byte orders
// and tensor types that are known and not read.
GgufContents parse_gguf(std::span<const std::byte> file, std::string_view what);

// Immutable, safe to read from many threads. String views and values live as long as the file object.
class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  uint32_t version() const { return contents_.version; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return contents_.metadata; }
  const std::vector<GgufEntry>& entries() const { return contents_.entries; }

  // Null when absent.
  const GgufValue* find(std::string_view key) const;
  const GgufEntry* find_tensor(std::string_view name) const;

  // Nothing when absent; Error(kBadFile) naming the key, its type and the type wanted when it is of another.
  std::optional<int64_t> find_integer(std::string_view key) const;  // any integer type
  std::optional<double> find_number(std::string_view key) const;    // any integer or float type
  std::optional<bool> find_boolean(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::optional<std::vector<int64_t>> find_integers(std::string_view key) const;
  std::optional<std::vector<double>> find_numbers(std::string_view key) const;
  std::optional<std::vector<bool>> find_booleans(std::string_view key) const;
  std::optional<std::vector<std::string_view>> find_strings(std::string_view key) const;

  // As above, but an absent key is Error(kBadFile) too.
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  std::string_view string(std::string_view key) const;

  // The tensor as stored, blocks and all; the view holds the mapping. Throws Error(kNotFound).
  TensorView read(std::string_view name) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  GgufContents contents_;
};

}  // namespace quaver
