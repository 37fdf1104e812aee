// How the codes of each element are held in panels.
#pragma once

#include <array>
#include <cstdint>

#include "numerics/element.h"

namespace quaver::kernels {

struct CodeForm {
  int bits = 4;      // 2, 4 or 8: 3-bit codes widen to 4, 5- to 7-bit ones to 8
  int32_t zero = 0;  // of integers that have no zero points
  // Floats: what each 4-bit code is, or how far the magnitude of an 8-bit code goes up to stand in a half's
  // bits, and the power of two between the half and the number.
  std::array<float, 16> values{};
  int half_shift = 0;  // 0: codes are no halves
  float factor = 1.0f;
  std::array<uint8_t, 256> recoded{};  // what stands in the panel for each stored code
};

const CodeForm& code_form(Element element);

}  // namespace quaver::kernels
