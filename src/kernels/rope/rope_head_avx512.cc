// Rotates one head with AVX-512.
#include "kernels/rope/rope_head_body.h"

namespace quaver::kernels {

void rope_head_avx512(float* x, const float* cos, const float* sin, int64_t half) {
  rope_head(x, cos, sin, half);
}

}  // namespace quaver::kernels
