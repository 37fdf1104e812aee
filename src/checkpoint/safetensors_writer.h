// Writes safetensors: one file, or shards with an index, one tensor in memory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace quaver {

struct SafetensorsOptions {
  std::string stem = "model";                // "diffusion_pytorch_model" in diffusers folders
  uint64_t max_shard_bytes = 5'000'000'000;  // of tensor data
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};

// One file, put in place whole or not at all. Bytes depend on the tensors alone, not on their order here:
// they lie by falling element size, then by name, as the safetensors library lays them. What the reader would
// refuse is Error(kInvalidInput) before anything is written; a full disk is Error(kBadFile).
void write_safetensors_file(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                            const TensorSource& source, const std::map<std::string, std::string>& metadata);

// Which tensors go together: in order of name, a new shard when the next one would pass the limit. None is
// split; one that is larger than the limit stands alone. `size_bytes` must be set.
std::vector<std::vector<TensorInfo>> plan_shards(std::vector<TensorInfo> tensors, uint64_t max_shard_bytes);

// Writes <stem>.safetensors, or <stem>-00001-of-0000N.safetensors and <stem>.safetensors.index.json when one
// shard is not enough. Files of the same stem that stood there before are removed. Returns the names written.
std::vector<std::string> write_safetensors(const std::filesystem::path& folder,
                                           std::vector<TensorInfo> tensors, const TensorSource& source,
                                           const SafetensorsOptions& options = {});

}  // namespace quaver
