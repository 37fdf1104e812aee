// One row of a causal softmax or of its gradient, per instruction set; for softmax_bf16.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

struct SoftmaxBf16Row {
  uint16_t* values;               // [keys]: scores, or the gradient
  const uint16_t* probabilities;  // [keys]; null: forward
  float* scratch;                 // [keys]
  int64_t begin, end;             // the keys that the row sees; the others are 0 already
  float scale;
};

void softmax_bf16_row_scalar(const SoftmaxBf16Row& row);
void softmax_bf16_row_avx2(const SoftmaxBf16Row& row);
void softmax_bf16_row_avx512(const SoftmaxBf16Row& row);

}  // namespace quaver::kernels
