// Tells a .gguf, or a folder that holds one and no config.json, from a Hugging Face folder.
#pragma once

#include <filesystem>

namespace quaver::models {

// The .gguf file meant; empty when `path` is something else. Error(kInvalidInput) when a folder holds
// several.
std::filesystem::path find_gguf(const std::filesystem::path& path);

}  // namespace quaver::models
