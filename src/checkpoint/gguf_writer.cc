#include "checkpoint/gguf_writer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "checkpoint/checked.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_types.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/output_file.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

constexpr size_t kMaxMetadataKeyBytes = 65535;
constexpr size_t kMaxGgmlNameBytes = 63;  // llama.cpp's limit, a terminating zero in 64 bytes
constexpr size_t kMaxGgmlExtents = 4;

void put_number(std::string& out, uint64_t value, size_t width) {
  out.resize(out.size() + width);
  write_little_endian(reinterpret_cast<std::byte*>(out.data() + out.size() - width), value, width);
}
void put_u32(std::string& out, uint32_t value) { put_number(out, value, 4); }
void put_type(std::string& out, GgufType type) { put_u32(out, static_cast<uint32_t>(type)); }
void put_string(std::string& out, std::string_view text) {
  put_number(out, text.size(), 8);
  out += text;
}
void put_f32(std::string& out, float value) { put_u32(out, std::bit_cast<uint32_t>(value)); }

void put_members(std::string& out, const GgufValue& value) {
  for (std::string_view text : value.strings) put_string(out, text);
  for (const GgufValue& array : value.arrays) {
    put_type(out, array.element);
    put_number(out, array.count, 8);
    put_members(out, array);
  }
  out.append(reinterpret_cast<const char*>(value.raw.data()), value.raw.size());
}

uint64_t padded(uint64_t bytes) { return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

void check_gguf_tensor(const TensorInfo& info) {
  auto demand = [&](bool holds, const auto&... message) {
    require(holds, ErrorKind::kInvalidInput, "tensor ", printable(info.name),
            " can't be written: ", message...);
  };
  demand(!info.name.empty() && info.name.size() <= kMaxGgmlNameBytes, "its name has ", info.name.size(),
         " bytes, expected 1 to ", kMaxGgmlNameBytes);
  demand(gguf_tensor_type(info.dtype) != nullptr, "GGUF has no type ", dtype_info(info.dtype).name);
  demand(!info.shape.empty() && info.shape.size() <= kMaxGgmlExtents, "it has ", info.shape.size(),
         " dimensions, expected 1 to ", kMaxGgmlExtents);
  demand(std::ranges::all_of(info.shape, [](int64_t extent) { return extent > 0; }), "its shape is ",
         info.shape);
  const DTypeInfo& type = dtype_info(info.dtype);
  demand(info.shape.back() % type.block_elements == 0, "rows of ", info.shape.back(), " don't fill ",
         type.name, " blocks of ", type.block_elements);
  auto bytes = checked_tensor_bytes(info.dtype, info.shape);
  demand(bytes.has_value(), "the size of shape ", info.shape, " overflows");
  demand(*bytes == info.size_bytes, "shape ", info.shape, " takes ", *bytes, " bytes, announced were ",
         info.size_bytes);
}

void check_gguf_tensors(std::span<const TensorInfo> tensors) {
  std::set<std::string_view> names;
  for (const TensorInfo& info : tensors) {
    check_gguf_tensor(info);
    require(names.insert(info.name).second, ErrorKind::kInvalidInput, "tensor ", printable(info.name),
            " can't be written twice");
  }
}

std::string gguf_header(const GgufMetadata& metadata, std::span<const TensorInfo> tensors) {
  std::string out = "GGUF";
  put_u32(out, 3);
  put_number(out, tensors.size(), 8);
  put_number(out, metadata.count(), 8);
  out += metadata.bytes();
  uint64_t offset = 0;
  for (const TensorInfo& info : tensors) {
    put_string(out, info.name);
    put_u32(out, static_cast<uint32_t>(info.shape.size()));
    for (auto extent = info.shape.rbegin(); extent != info.shape.rend(); ++extent)
      put_number(out, static_cast<uint64_t>(*extent), 8);
    put_u32(out, gguf_tensor_type(info.dtype)->id);
    put_number(out, offset, 8);
    auto end = checked_add(offset, info.size_bytes);
    require(end && *end <= uint64_t{1} << 62, ErrorKind::kInvalidInput, "the tensors' total size overflows");
    offset = padded(*end);
  }
  out.resize(padded(out.size()));
  return out;
}

// FNV-1a, eight bytes at a step: to find what a disk did to a tensor, not to resist anybody.
uint64_t digest_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    hash = (hash ^ read_little_endian(bytes, i, std::min<size_t>(8, bytes.size() - i))) * 0x100000001b3u;
    hash ^= hash >> 32;
  }
  return hash;
}

void compare_written(const std::filesystem::path& partial, std::span<const TensorInfo> tensors,
                     std::span<const uint64_t> digests) {
  const GgufFile file = GgufFile::open(partial);
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorView view = file.read(tensors[i].name);
    require(view.dtype == tensors[i].dtype && view.shape == tensors[i].shape &&
                digest_of(view.data.bytes()) == digests[i],
            ErrorKind::kInternal, partial.string(), ": tensor ", printable(tensors[i].name),
            " reads otherwise than it was written");
  }
}

}  // namespace

void GgufMetadata::begin(std::string_view key, GgufType type) {
  require(!key.empty() && key.size() <= kMaxMetadataKeyBytes, ErrorKind::kInvalidInput, "metadata key ",
          printable(key), " has ", key.size(), " bytes, expected 1 to ", kMaxMetadataKeyBytes);
  require(keys_.emplace(key).second, ErrorKind::kInvalidInput, "metadata key ", printable(key),
          " can't be written twice");
  put_string(bytes_, key);
  put_type(bytes_, type);
}

void GgufMetadata::begin_array(std::string_view key, GgufType element, uint64_t count) {
  begin(key, GgufType::kArray);
  put_type(bytes_, element);
  put_number(bytes_, count, 8);
}

void GgufMetadata::add_u32(std::string_view key, uint32_t value) {
  begin(key, GgufType::kU32);
  put_u32(bytes_, value);
}
void GgufMetadata::add_f32(std::string_view key, float value) {
  begin(key, GgufType::kF32);
  put_f32(bytes_, value);
}
void GgufMetadata::add_bool(std::string_view key, bool value) {
  begin(key, GgufType::kBool);
  bytes_.push_back(value ? 1 : 0);
}
void GgufMetadata::add_string(std::string_view key, std::string_view value) {
  begin(key, GgufType::kString);
  put_string(bytes_, value);
}
void GgufMetadata::add_strings(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::kString, values.size());
  for (const std::string& value : values) put_string(bytes_, value);
}
void GgufMetadata::add_f32s(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::kF32, values.size());
  for (float value : values) put_f32(bytes_, value);
}
void GgufMetadata::add_i32s(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, GgufType::kI32, values.size());
  for (int32_t value : values) put_u32(bytes_, static_cast<uint32_t>(value));
}
void GgufMetadata::add_value(std::string_view key, const GgufValue& value) {
  if (value.type == GgufType::kArray)
    begin_array(key, value.element, value.count);
  else
    begin(key, value.type);
  put_members(bytes_, value);
}

void write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                std::span<const TensorInfo> tensors, const TensorSource& source,
                const std::function<void(const std::filesystem::path&)>& check) {
  check_gguf_tensors(tensors);
  const std::string header = gguf_header(metadata, tensors);
  constexpr std::array<std::byte, kGgufAlignment> kZeros = {};
  OutputFile file(path);
  file.write(std::as_bytes(std::span(header)));
  std::vector<uint64_t> digests;
  for (const TensorInfo& info : tensors) {
    TensorView view = announced(source, info);
    file.write(view.data.bytes());
    file.write(std::span(kZeros).first(padded(info.size_bytes) - info.size_bytes));
    digests.push_back(digest_of(view.data.bytes()));
  }
  file.commit([&](const std::filesystem::path& partial) {
    compare_written(partial, tensors, digests);
    if (check) check(partial);
  });
}

}  // namespace quaver
