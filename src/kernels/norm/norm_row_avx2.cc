// RMS normalisation of a row with AVX2.
#include "kernels/norm/norm_row_body.h"

namespace quaver::kernels {

void rms_norm_row_avx2(const NormRow& row) { rms_norm_row(row); }

}  // namespace quaver::kernels
