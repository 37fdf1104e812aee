// Rotates one bf16 head with AVX2.
#include "kernels/rope/rope_bf16_head_body.h"

namespace quaver::kernels {

void rope_bf16_head_avx2(const RopeBf16Head& head) { rope_bf16_head(head); }

}  // namespace quaver::kernels
