// Puts a GGUF file together byte by byte, right or wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf_value.h"
#include "checkpoint/scratch_folder.h"

namespace quaver::testing {

inline std::string gguf_string(std::string_view text) { return cat(little_endian(text.size()), text); }
inline std::string gguf_u32(uint32_t value) { return little_endian(value, 4); }
inline std::string gguf_type(GgufType type) { return gguf_u32(static_cast<uint32_t>(type)); }

// A metadata entry: key, type, and the value's bytes as given.
inline std::string gguf_pair(std::string_view key, GgufType type, std::string_view value) {
  return cat(gguf_string(key), gguf_type(type), value);
}

inline std::string gguf_tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                               uint64_t offset) {
  std::string out = cat(gguf_string(name), gguf_u32(static_cast<uint32_t>(extents.size())));
  for (uint64_t extent : extents) out += little_endian(extent);
  return cat(out, gguf_u32(type), little_endian(offset));
}

struct GgufBuilder {
  uint32_t version = 3;
  uint64_t tensor_count = 0, pair_count = 0;
  std::string pairs, tensors, data;
  uint64_t alignment = 32;

  GgufBuilder& pair(std::string_view key, GgufType type, std::string_view value) {
    pairs += gguf_pair(key, type, value);
    ++pair_count;
    return *this;
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                      uint64_t offset) {
    tensors += gguf_tensor(name, extents, type, offset);
    ++tensor_count;
    return *this;
  }
  std::string bytes() const {
    std::string out = cat("GGUF", gguf_u32(version), little_endian(tensor_count), little_endian(pair_count),
                          pairs, tensors);
    if (!data.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

}  // namespace quaver::testing
