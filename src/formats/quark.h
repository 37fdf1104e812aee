// The row of AMD Quark ("quant_method": "quark").
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kQuarkFormat;

}  // namespace quaver
