// Where tuning starts: the share of each tile's range that rounds its weights best.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "formats/quant_weight.h"

namespace quaver::quantize {

// Fake-quantizes rows [first, first + count) with every range multiplied by `ratio`: [count, in], any
// floating dtype. Called from several threads at once, for different rows.
using FakeRows = std::function<at::Tensor(int64_t first, int64_t count, float ratio)>;

// [group rows, group columns] float32: of the ratios 0.30, 0.32 ... 1.50 the one that minimises
// sum h (w_hat - w)^2 over the tile, 1 where none is better. `weight` is [out, in]; `importance` holds h per
// input channel, [in] on the same device (a sum of squared inputs); undefined counts all alike. A search
// before tuning, weighted by inputs: SignRoundV2, arXiv 2512.04746. On the CPU each thread takes pieces of
// rows that stay in its cache, whole tiles each.
at::Tensor search_ranges(const at::Tensor& weight, Extent2d tile, const at::Tensor& importance,
                         const FakeRows& fake);

}  // namespace quaver::quantize
