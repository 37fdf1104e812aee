// RMS normalisation of a row with AVX-512.
#include "kernels/norm/norm_row_body.h"

namespace quaver::kernels {

void rms_norm_row_avx512(const NormRow& row) { rms_norm_row(row); }

}  // namespace quaver::kernels
