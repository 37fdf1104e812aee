// The row of AutoRound's own format ("quant_method": "auto-round").
#pragma once

#include "formats/format.h"

namespace quaver {

extern const Format kAutoRoundFormat;

}  // namespace quaver
