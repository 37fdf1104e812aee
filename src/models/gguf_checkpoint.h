// A GGUF file seen as a Hugging Face folder: the same tensor names, config and sidecars, values dequantized
// on reading.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint.h"

namespace quaver::models {

// Block-quantized tensors read as bfloat16, each value rounded once; plain ones keep their type, but float32
// next to quantized ones reads as bfloat16 too. Errors as of gguf_names.h and gguf_config.h.
std::unique_ptr<Checkpoint> open_gguf_checkpoint(const std::filesystem::path& path);

}  // namespace quaver::models
