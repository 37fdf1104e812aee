// One file of weights that stands for a component's folder: GGUF or safetensors, under its own names.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint.h"

namespace quaver {

// `config` is what config() gives; nothing of the file is taken for it. Blocks of a GGUF read as bfloat16,
// each value rounded once, and as they are by read_stored; metadata() gives what its keys say as text.
// Error(kUnsupported) for files of another kind or with tensors of a type that can't be read.
std::unique_ptr<Checkpoint> open_tensor_file(const std::filesystem::path& path, json config);

}  // namespace quaver
