// Gated activations with AVX2.
#include "kernels/activation/gated_row_body.h"

namespace quaver::kernels {

void silu_row_avx2(const GatedRow& row) { gated_row<silu>(row); }
void gelu_row_avx2(const GatedRow& row) { gated_row<gelu_tanh>(row); }
void clamped_silu_row_avx2(const GatedRow& row) { clamped_silu_row(row); }

}  // namespace quaver::kernels
