// Finds tensors that were never written although their file has its full length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace quaver {

// Where a tensor lies in its file.
struct TensorRange {
  std::string_view name;
  uint64_t offset = 0, size_bytes = 0;
};

// Logs one warning per file when tensors lie in a hole of a sparse file, as an interrupted download leaves
// it: they read as zeros and no length betrays them. Silent where the file system can't tell.
void warn_about_holes(const std::filesystem::path& file, const std::vector<TensorRange>& tensors);

// The tensors touched by a hole, for tests; empty when there is none or the file system can't tell.
std::vector<std::string> tensors_in_holes(const std::filesystem::path& file,
                                          const std::vector<TensorRange>& tensors);

}  // namespace quaver
