// Rotates one bf16 head with AVX-512.
#include "kernels/rope/rope_bf16_head_body.h"

namespace quaver::kernels {

void rope_bf16_head_avx512(const RopeBf16Head& head) { rope_bf16_head(head); }

}  // namespace quaver::kernels
