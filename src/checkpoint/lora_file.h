// A file of updates of low rank (LoRA; Hu et al., arXiv 2106.09685), by the names that its writer gave the
// layers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

// W + scale * up down.
struct LoraLayer {
  std::string name;      // as the file has it: "lora_unet_double_blocks_0_img_attn_qkv"
  NamedTensor down, up;  // [rank, in], [out, rank]; f32, f16, bf16 or f64
  double scale = 1;      // alpha / rank, by a tensor or the settings beside it
  int64_t rank() const { return down.tensor.shape[0]; }
};

// Immutable; the tensors keep the file mapped.
class LoraFile {
 public:
  // A safetensors file, or a folder with pytorch_lora_weights.safetensors or adapter_model.safetensors.
  // Error(kNotFound), Error(kBadFile) naming file and tensor: parts that are missing or don't fit each other,
  // an alpha that is no finite number. Error(kUnsupported) for pickles, and for adapters that are more than a
  // plain LoRA.
  static LoraFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<LoraLayer>& layers() const { return layers_; }  // sorted by name, at least one

 private:
  std::filesystem::path path_;
  std::vector<LoraLayer> layers_;
};

}  // namespace quaver
