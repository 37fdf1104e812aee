// nf4, a 4-bit code whose 16 values are quantiles of the normal distribution, scaled to [-1, 1].
// Source: Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", arXiv:2305.14314, appendix E.
#pragma once

#include <array>
#include <cstdint>

namespace quaver {

inline constexpr std::array<float, 16> kNF4Values = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

constexpr float nf4_to_float(uint8_t code) { return kNF4Values[code & 15u]; }

// Nearest value; halfway goes to the lower one. Precondition: not NaN.
constexpr uint8_t float_to_nf4(float value) {
  uint8_t code = 0;
  for (uint8_t next = 1; next < 16; ++next)
    if (value > (static_cast<double>(kNF4Values[next - 1u]) + static_cast<double>(kNF4Values[next])) / 2)
      code = next;
  return code;
}

}  // namespace quaver
