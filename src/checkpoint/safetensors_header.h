// What a safetensors file says about itself, believed only after it was held against the file's real size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

// Limits that reader and writer share, so that nothing is written that can't be read back. The header length
// is that of the safetensors library.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensorRank = 32;

struct SafetensorsEntry {
  TensorInfo info;
  uint64_t offset = 0;  // from the start of the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // sorted by name, at least one
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// `file` is the whole file, `what` its name for messages. Demands what the format demands: tensors that cover
// the data without overlap, hole or remainder, byte counts that follow from dtype and shape, no name twice.
// Memory stays in proportion to the header. Throws Error(kBadFile).
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view what);

}  // namespace quaver
