// iq4nl, the 4-bit code of the GGUF types IQ4_NL and IQ4_XS: 16 unevenly spaced integers that a block's scale
// multiplies.
#pragma once

#include <array>
#include <cstdint>

namespace quaver {

inline constexpr std::array<int8_t, 16> kIQ4NLValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};

constexpr float iq4nl_to_float(uint8_t code) { return kIQ4NLValues[code & 15u]; }

}  // namespace quaver
