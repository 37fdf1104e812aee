// fp4, a 4-bit float scaled to [-1, 1] whose codes are not in the order of their values and whose smallest
// magnitude is 1/192. Source: Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs",
// arXiv:2305.14314, which compares it with nf4; the values are those of the authors' library.
#pragma once

#include <array>
#include <cstdint>

namespace quaver {

// Of codes 0 to 7; codes 8 to 15 are their negatives.
inline constexpr std::array<float, 8> kFP4Magnitudes = {
    0.0f, 1.0f / 192, 2.0f / 3, 1.0f, 1.0f / 3, 0.5f, 1.0f / 6, 0.25f,
};

// The low four bits of `code`; 8 is -0.
constexpr float fp4_to_float(uint8_t code) {
  const float magnitude = kFP4Magnitudes[code & 7u];
  return code & 8u ? -magnitude : magnitude;
}

}  // namespace quaver
