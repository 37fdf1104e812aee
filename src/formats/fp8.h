// The row of fine-grained and plain 8-bit floats ("quant_method": "fp8").
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kFp8Format;

}  // namespace quaver
