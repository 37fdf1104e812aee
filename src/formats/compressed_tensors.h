// The row of compressed-tensors ("quant_method": "compressed-tensors"), as llm-compressor and others write
// it.
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kCompressedTensorsFormat;

}  // namespace quaver
