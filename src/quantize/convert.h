// Turns any loadable model into a plain folder without quantization.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/progress.h"

namespace quaver::quantize {

struct ConvertOptions {
  std::string model;  // folder or .gguf
  std::filesystem::path output_dir;
  std::string to = "bf16";  // bf16 or fp32
  bool overwrite = false;
  uint64_t max_shard_bytes = 5'000'000'000;
};

// Every quantized layer becomes `code x scale` rounded once to the wanted type; floating tensors are cast,
// others copied. Block by block, resident memory of one block. Returns the bytes of all tensors written.
int64_t convert_to_plain(const ConvertOptions& options, ProgressSink& progress);

}  // namespace quaver::quantize
