// The row of experts in 4-bit floats, stacked ("quant_method": "mxfp4").
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kMxfp4Format;

}  // namespace quaver
