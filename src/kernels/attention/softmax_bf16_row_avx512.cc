// One row of a causal softmax and of its gradient with AVX-512.
#include "kernels/attention/softmax_bf16_row_body.h"

namespace quaver::kernels {

void softmax_bf16_row_avx512(const SoftmaxBf16Row& row) { softmax_bf16_row(row); }

}  // namespace quaver::kernels
