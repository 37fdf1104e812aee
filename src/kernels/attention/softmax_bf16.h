// Causal softmax over bf16 scores and its gradient: the part of tuning's attention that is no matrix product.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

// Row r belongs to the query at position first_query + r / rows_per_query and sees keys [begin, position +
// 1), begin = 0 or, with a window, position + 1 - window. Rows are contiguous, `keys` wide.
struct CausalRows {
  int64_t rows = 0, keys = 0;
  int64_t first_query = 0, rows_per_query = 1;
  int64_t window = 0;  // 0 = everything before
  float scale = 1.0f;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

// In place: scores become bf16(softmax(scale * score)) over the keys that a row sees and 0 elsewhere.
void causal_softmax_bf16(const CausalRows& rows, uint16_t* scores, const CpuFeatures& cpu = cpu_features());

// In place: `gradient`, of the probabilities p, becomes that of the scores: scale * p * (dp - sum(p dp)).
void causal_softmax_bf16_gradient(const CausalRows& rows, const uint16_t* probabilities, uint16_t* gradient,
                                  const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
