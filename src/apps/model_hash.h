// A short name for the very model that made a picture.
#pragma once

#include <string>

#include "checkpoint/diffusers_folder.h"

namespace quaver::apps {

// SHA-256, 64 digits, over the settings of the folder's components and over each tensor's name, type, shape,
// size and first 64 bytes: reads a page a tensor, so it takes no time even where weights are many gigabytes.
// Another version, precision or fine-tune of a model has another hash; a change further inside a tensor alone
// is not seen.
std::string model_hash(const DiffusersFolder& folder);

}  // namespace quaver::apps
