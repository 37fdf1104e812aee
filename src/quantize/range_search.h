// Where tuning starts: the share of each group's range that rounds its weights best.
#pragma once

#include "quantize/qdq_aten.h"

namespace quaver::quantize {

// [out, groups] float32 on the weight's device: of the ratios 0.30, 0.32 ... 1.50, the alpha = beta = r that
// minimises sum h (w_hat - w)^2 over the group, 1 where none is better; V as it stands in `tensors`.
// `importance` holds h per input channel, [in] on the same device (a sum of squared inputs); undefined counts
// all alike. A search before tuning, weighted by inputs: SignRoundV2, arXiv 2512.04746. Takes 128 KiB to a
// few hundred of extra memory per thread of ATen on the CPU; on other devices five times the weight's.
at::Tensor search_ranges(const QdqTensors& tensors, const Scheme& scheme, const at::Tensor& importance);

}  // namespace quaver::quantize
