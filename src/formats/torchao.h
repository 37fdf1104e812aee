// The row of torchao ("quant_method": "torchao") in its safetensors form and its pickled one, which the
// checkpoint turns into it.
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kTorchAoFormat;

}  // namespace quaver
