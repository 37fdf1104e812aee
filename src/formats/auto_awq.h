// The row of AWQ in its GEMM layout ("quant_method": "awq").
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kAutoAwqFormat;

}  // namespace quaver
