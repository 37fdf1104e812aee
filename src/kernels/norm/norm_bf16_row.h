// One bf16 row of RMS normalisation or of its gradient, per instruction set; for norm_bf16.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

struct NormBf16Row {
  const uint16_t* x;
  const float* weight;
  const uint16_t* dy;  // null: forward
  uint16_t* out;       // y, or dx
  int64_t width;
  float epsilon;
  bool round_first;
};

void norm_bf16_row_scalar(const NormBf16Row& row);
void norm_bf16_row_avx2(const NormBf16Row& row);
void norm_bf16_row_avx512(const NormBf16Row& row);

}  // namespace quaver::kernels
