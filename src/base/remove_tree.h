// Deletes a folder and everything in it.
#pragma once

#include <filesystem>

namespace quaver {

// Also takes a single file, and a path that does not exist. Links are deleted, not followed. Throws
// Error(kBadFile) that names the path and the system's reason. In place of std::filesystem::remove_all: the
// torch 2.11 CUDA wheel exports a broken copy of that one function, which the linker would take.
void remove_tree(const std::filesystem::path& path);

}  // namespace quaver
