// Rotates one head, per instruction set; for rope.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

// x[0, half) and x[half, 2 half) against cos and sin [half].
void rope_head_scalar(float* x, const float* cos, const float* sin, int64_t half);
void rope_head_avx2(float* x, const float* cos, const float* sin, int64_t half);
void rope_head_avx512(float* x, const float* cos, const float* sin, int64_t half);

}  // namespace quaver::kernels
