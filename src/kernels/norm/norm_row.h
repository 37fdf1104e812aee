// One row of RMS normalisation, per instruction set; for norm.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

struct NormRow {
  const float* x;
  float* y;
  const float* weight;  // or null
  float* residual;      // or null
  int64_t width;
  float epsilon;
  float weight_offset;  // 0 or 1
};

void rms_norm_row_scalar(const NormRow& row);
void rms_norm_row_avx2(const NormRow& row);
void rms_norm_row_avx512(const NormRow& row);

}  // namespace quaver::kernels
