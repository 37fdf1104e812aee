// RMS normalisation of a bf16 row and its gradient with AVX-512.
#include "kernels/norm/norm_bf16_row_body.h"

namespace quaver::kernels {

void norm_bf16_row_avx512(const NormBf16Row& row) { norm_bf16_row(row); }

}  // namespace quaver::kernels
