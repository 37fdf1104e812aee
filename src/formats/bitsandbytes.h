// The row of bitsandbytes ("quant_method": "bitsandbytes"): nf4, fp4 and int8.
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kBitsAndBytesFormat;

}  // namespace quaver
