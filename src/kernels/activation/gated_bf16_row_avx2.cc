// bf16 gated activations and their gradients with AVX2.
#include "kernels/activation/gated_bf16_row_body.h"

namespace quaver::kernels {

void gated_bf16_row_avx2(const GatedBf16Row& row) { gated_bf16_row(row); }

}  // namespace quaver::kernels
