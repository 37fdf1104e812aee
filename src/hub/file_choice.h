// Which files of a repository to download, and why the others are left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hub/listing.h"

namespace quaver::hub {

struct FilePatterns {
  std::vector<std::string> include, exclude;  // shell patterns; * also crosses folders, "x/" is all of x
};

struct SkippedFile {
  RepoFile file;
  std::string reason;
};

struct FileChoice {
  std::vector<RepoFile> wanted;
  std::vector<SkippedFile> skipped;
};

// With `only`, that one file: Error(kNotFound) when it isn't there. With include patterns, what fits one of
// them. Otherwise everything but the same weights in other forms (pickles, GGUF and ONNX beside safetensors).
// Exclude patterns always count. Error(kInvalidInput) lists the .gguf files when a repository holds several,
// no safetensors, and neither a file nor a pattern says which; Error(kNotFound) when nothing is left.
// Messages begin with `what`.
FileChoice choose_files(const std::vector<RepoFile>& files, const FilePatterns& patterns,
                        std::string_view only, std::string_view what);

}  // namespace quaver::hub
