// One row of a causal softmax and of its gradient with AVX2.
#include "kernels/attention/softmax_bf16_row_body.h"

namespace quaver::kernels {

void softmax_bf16_row_avx2(const SoftmaxBf16Row& row) { softmax_bf16_row(row); }

}  // namespace quaver::kernels
