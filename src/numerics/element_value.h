// The value of one stored code of any element type that is a float, as a number.
#pragma once

#include "numerics/e2m1.h"
#include "numerics/e2m3.h"
#include "numerics/e3m2.h"
#include "numerics/e4m3fn.h"
#include "numerics/e4m3fnuz.h"
#include "numerics/e5m2.h"
#include "numerics/element.h"
#include "numerics/fp4.h"
#include "numerics/iq4nl.h"
#include "numerics/nf4.h"

namespace quaver {

// Integers give the unsigned code itself. `code` must be below 2^bits.
constexpr float element_value(Element element, uint8_t code) {
  switch (element) {
    case Element::kE4M3FN:
      return e4m3fn_to_float(code);
    case Element::kE4M3FNUZ:
      return e4m3fnuz_to_float(code);
    case Element::kE5M2:
      return e5m2_to_float(code);
    case Element::kE2M1:
      return e2m1_to_float(code);
    case Element::kE2M3:
      return e2m3_to_float(code);
    case Element::kE3M2:
      return e3m2_to_float(code);
    case Element::kNF4:
      return nf4_to_float(code);
    case Element::kIQ4NL:
      return iq4nl_to_float(code);
    case Element::kFP4:
      return fp4_to_float(code);
    default:
      return static_cast<float>(code);
  }
}

}  // namespace quaver
