// Writes one GGUF file (version 3): metadata, then tensors, one in memory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf_value.h"
#include "checkpoint/tensor_source.h"

namespace quaver {

// Metadata in the order in which it was added. Error(kInvalidInput) for a key that stands there already, or
// whose length readers refuse.
class GgufMetadata {
 public:
  void add_u32(std::string_view key, uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  // What another file holds, in its type.
  void add_value(std::string_view key, const GgufValue& value);

  bool has(std::string_view key) const { return keys_.contains(key); }
  uint64_t count() const { return keys_.size(); }
  std::string_view bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element, uint64_t count);

  std::string bytes_;
  std::set<std::string, std::less<>> keys_;
};

inline constexpr uint64_t kGgufAlignment = 32;

// Tensors lie in the order given, each at a multiple of 32 bytes; shapes are row-major, as GgufEntry has
// them. The file appears whole or not at all: after the last tensor it is read back and each tensor's bytes
// compared with those written, then `check` may look at it under its temporary name, then it is renamed. What
// readers would refuse (names twice or longer than 63 bytes, more than 4 extents, rows that don't fill
// blocks, types that the format lacks) is Error(kInvalidInput) before anything is written; a full disk is
// Error(kBadFile); a difference on reading back is Error(kInternal).
void write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                std::span<const TensorInfo> tensors, const TensorSource& source,
                const std::function<void(const std::filesystem::path&)>& check = {});

}  // namespace quaver
