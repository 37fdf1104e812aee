// Finds tensors that were never written although their file has its full length.
#pragma once

#include "checkpoint/safetensors_file.h"

namespace quaver {

// Logs one warning per file when tensors lie in a hole of a sparse file, as an interrupted download leaves
// it: they read as zeros and no length betrays them. Silent where the file system can't tell.
void warn_about_holes(const SafetensorsFile& file);

// The tensors touched by a hole, for tests; empty when there is none or the file system can't tell.
std::vector<std::string> tensors_in_holes(const SafetensorsFile& file);

}  // namespace quaver
