// Passes over logits with AVX2.
#include "kernels/sampling/logit_ops_body.h"

namespace quaver::kernels {

const LogitOps kLogitOpsAvx2 = {max_of, acceptable, find_equal, count_above, collect, sum_exp};

}  // namespace quaver::kernels
