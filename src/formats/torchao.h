// The row of torchao ("quant_method": "torchao") in its safetensors form.
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kTorchAoFormat;

}  // namespace quaver
