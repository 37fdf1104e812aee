// Joins a name from an untrusted file to a model folder without leaving the folder.
#pragma once

#include <filesystem>
#include <string_view>

namespace quaver {

// `folder` / `name`. Refuses, before anything is opened, names that are empty, absolute, hold
// ".." or a zero byte, and symbolic links that resolve elsewhere than
//   - inside `folder` itself, or
//   - inside `blobs/` of the Hugging Face cache entry that contains it (models--*/snapshots/<revision>/ links
//   there).
// `what` says where the name came from. Throws Error(kBadFile); kNotFound when there is no such file.
std::filesystem::path contained_path(const std::filesystem::path& folder, std::string_view name,
                                     std::string_view what);

// The first half alone: refuses the spelling, looks at no file.
void check_contained_name(std::string_view name, std::string_view what);

}  // namespace quaver
