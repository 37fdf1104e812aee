// Rotates one bf16 head, per instruction set; for rope_bf16.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

// y = x[0, half) and x[half, 2 half) turned by cos and sign * sin [half].
struct RopeBf16Head {
  const uint16_t* x;
  uint16_t* y;
  const float* cos;
  const float* sin;
  int64_t half;
  float sign;
};

void rope_bf16_head_scalar(const RopeBf16Head& head);
void rope_bf16_head_avx2(const RopeBf16Head& head);
void rope_bf16_head_avx512(const RopeBf16Head& head);

}  // namespace quaver::kernels
