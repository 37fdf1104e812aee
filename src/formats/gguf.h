// The row of GGUF files: matrices in blocks of codes whose type the file states tensor by tensor.
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kGgufFormat;

}  // namespace quaver
