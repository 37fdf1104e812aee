// CLIP's tokenizer from the files of its older writers.
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.h"

namespace quaver::models {

// True for a folder with vocab.json and merges.txt whose tokenizer_config.json names CLIP's tokenizer.
bool has_clip_tokenizer(const std::filesystem::path& folder);

// Texts are lower-cased; words end in "</w>". Error(kBadFile) names file and line.
std::unique_ptr<Tokenizer> open_clip_tokenizer(const std::filesystem::path& folder);

}  // namespace quaver::models
