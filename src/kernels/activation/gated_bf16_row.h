// A stretch of a bf16 gated activation or of its gradient, per instruction set; for activation_bf16.cc alone.
#pragma once

#include "kernels/activation/activation_bf16.h"

namespace quaver::kernels {

struct GatedBf16Row {
  GateFunction function;
  const uint16_t* gate;
  const uint16_t* up;
  const uint16_t* dy;  // null: forward, into y
  uint16_t* y;
  uint16_t* dgate;
  uint16_t* dup;
  int64_t width;
};

void gated_bf16_row_scalar(const GatedBf16Row& row);
void gated_bf16_row_avx2(const GatedBf16Row& row);
void gated_bf16_row_avx512(const GatedBf16Row& row);

}  // namespace quaver::kernels
