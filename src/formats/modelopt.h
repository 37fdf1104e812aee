// The row of NVIDIA Model Optimizer ("quant_method": "modelopt", or hf_quant_config.json).
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kModelOptFormat;

}  // namespace quaver
