// A loop on a pool, or on this thread when there is none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace quaver::kernels {

template <class Body>
void parallel_rows(ThreadPool* pool, int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (pool == nullptr || n <= grain) return body(int64_t{0}, n);
  pool->parallel_for(n, grain, body);
}

// Rows of `width` elements that are worth handing to another thread together.
inline int64_t row_grain(int64_t width) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, width)); }

}  // namespace quaver::kernels
