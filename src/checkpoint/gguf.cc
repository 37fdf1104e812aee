#include "checkpoint/gguf.h"

#include <algorithm>

#include "checkpoint/mapped_tensor.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

std::string describe(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(gguf_type_name(value.type));
  return cat("array of ", gguf_type_name(value.element));
}

[[noreturn]] void wrong_type(const GgufFile& file, std::string_view key, const GgufValue& value,
                             std::string_view wanted) {
  throw Error(ErrorKind::kBadFile,
              cat(file.path().string(), ": metadata key ", printable(key), " is of type ", describe(value),
                  " or out of range, expected ", wanted),
              std::string(key));
}

template <class T>
using Getter = std::optional<T> (GgufValue::*)(uint64_t) const;

template <class T>
std::optional<T> find_scalar(const GgufFile& file, std::string_view key, std::string_view wanted,
                             Getter<T> get) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<T> got;
  if (value->type != GgufType::kArray) got = (value->*get)(0);
  if (!got) wrong_type(file, key, *value, wanted);
  return got;
}

template <class T>
std::optional<std::vector<T>> find_array(const GgufFile& file, std::string_view key, std::string_view wanted,
                                         Getter<T> get) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kArray) wrong_type(file, key, *value, wanted);
  std::vector<T> members;
  members.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    std::optional<T> member = (value->*get)(i);
    if (!member) wrong_type(file, key, *value, wanted);
    members.push_back(*member);
  }
  return members;
}

template <class T>
T present(const GgufFile& file, std::string_view key, const std::optional<T>& value) {
  if (value) return *value;
  throw Error(ErrorKind::kBadFile, cat(file.path().string(), ": has no metadata key ", printable(key)),
              std::string(key));
}

}  // namespace

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile opened;
  opened.file_ = MappedFile::open(path);
  opened.contents_ = parse_gguf(opened.file_->bytes(), path.string());
  return opened;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  auto it = contents_.metadata.find(key);
  return it == contents_.metadata.end() ? nullptr : &it->second;
}

const GgufEntry* GgufFile::find_tensor(std::string_view name) const {
  auto it =
      std::lower_bound(entries().begin(), entries().end(), name,
                       [](const auto& entry, std::string_view wanted) { return entry.info.name < wanted; });
  return it != entries().end() && it->info.name == name ? &*it : nullptr;
}

std::optional<int64_t> GgufFile::find_integer(std::string_view key) const {
  return find_scalar<int64_t>(*this, key, "an integer", &GgufValue::integer);
}
std::optional<double> GgufFile::find_number(std::string_view key) const {
  return find_scalar<double>(*this, key, "a number", &GgufValue::number);
}
std::optional<bool> GgufFile::find_boolean(std::string_view key) const {
  return find_scalar<bool>(*this, key, "a bool", &GgufValue::boolean);
}
std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  return find_scalar<std::string_view>(*this, key, "a string", &GgufValue::string);
}
std::optional<std::vector<int64_t>> GgufFile::find_integers(std::string_view key) const {
  return find_array<int64_t>(*this, key, "an array of integers", &GgufValue::integer);
}
std::optional<std::vector<double>> GgufFile::find_numbers(std::string_view key) const {
  return find_array<double>(*this, key, "an array of numbers", &GgufValue::number);
}
std::optional<std::vector<bool>> GgufFile::find_booleans(std::string_view key) const {
  return find_array<bool>(*this, key, "an array of bools", &GgufValue::boolean);
}
std::optional<std::vector<std::string_view>> GgufFile::find_strings(std::string_view key) const {
  return find_array<std::string_view>(*this, key, "an array of strings", &GgufValue::string);
}

int64_t GgufFile::integer(std::string_view key) const { return present(*this, key, find_integer(key)); }
double GgufFile::number(std::string_view key) const { return present(*this, key, find_number(key)); }
std::string_view GgufFile::string(std::string_view key) const {
  return present(*this, key, find_string(key));
}

TensorView GgufFile::read(std::string_view name) const {
  const GgufEntry* entry = find_tensor(name);
  require(entry != nullptr, ErrorKind::kNotFound, path().string(), ": has no tensor ", printable(name));
  return mapped_tensor(entry->info, file_->bytes().subspan(entry->offset, entry->info.size_bytes), file_);
}

}  // namespace quaver
