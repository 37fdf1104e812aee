// The row of GPTQ as AutoGPTQ, GPTQModel and others write it ("quant_method": "gptq").
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kAutoGptqFormat;

}  // namespace quaver
