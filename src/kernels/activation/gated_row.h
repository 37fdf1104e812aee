// One row of a gated activation, per instruction set; for activation.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

struct GatedRow {
  const float* gate;
  const float* up;
  float* y;
  int64_t width;
  float alpha, limit;
};

void silu_row_scalar(const GatedRow& row);
void silu_row_avx2(const GatedRow& row);
void silu_row_avx512(const GatedRow& row);
void gelu_row_scalar(const GatedRow& row);
void gelu_row_avx2(const GatedRow& row);
void gelu_row_avx512(const GatedRow& row);
void clamped_silu_row_scalar(const GatedRow& row);
void clamped_silu_row_avx2(const GatedRow& row);
void clamped_silu_row_avx512(const GatedRow& row);

}  // namespace quaver::kernels
