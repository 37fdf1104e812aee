// One row of a causal softmax and of its gradient on vectors; compiled by softmax_bf16_row_avx2.cc and
// softmax_bf16_row_avx512.cc.
#pragma once

#include "kernels/attention/softmax_bf16_row.h"
#include "kernels/simd_math.h"

namespace quaver::kernels {
namespace {

// body(i, mask) for the vectors of [begin, end).
template <class Body>
QUAVER_INLINE void for_lanes(const SoftmaxBf16Row& row, const Body& body) {
  for (int64_t i = row.begin; i < row.end; i += kLanes)
    body(i, first_lanes(row.end - i < kLanes ? row.end - i : kLanes));
}

QUAVER_INLINE void softmax_bf16_forward(const SoftmaxBf16Row& row) {
  Vec scale = splat(row.scale), lowest = splat(-__builtin_huge_valf()), tops = lowest;
  for_lanes(row, [&](int64_t i, Mask m) QUAVER_INLINE_LAMBDA {
    Vec scaled = mul(load_bf16(row.values + i, m), scale);
    tops = max(tops, where(m, scaled, lowest));
    store(row.scratch + i, scaled, m);
  });
  Vec top = splat(max_lane(tops)), sums = zero();
  for_lanes(row, [&](int64_t i, Mask m) QUAVER_INLINE_LAMBDA {
    Vec e = exp(sub(load(row.scratch + i, m), top));
    sums = add(sums, keep(m, e));
    store(row.scratch + i, e, m);
  });
  Vec inverse = splat(1.0f / sum_lanes(sums));
  for_lanes(row, [&](int64_t i, Mask m) QUAVER_INLINE_LAMBDA {
    store_bf16(row.values + i, mul(load(row.scratch + i, m), inverse), m);
  });
}

QUAVER_INLINE void softmax_bf16_gradient(const SoftmaxBf16Row& row) {
  Vec sums = zero();
  for_lanes(row, [&](int64_t i, Mask m) QUAVER_INLINE_LAMBDA {
    sums = fma(load_bf16(row.values + i, m), load_bf16(row.probabilities + i, m), sums);
  });
  Vec along = splat(sum_lanes(sums)), scale = splat(row.scale);
  for_lanes(row, [&](int64_t i, Mask m) QUAVER_INLINE_LAMBDA {
    Vec difference = sub(load_bf16(row.values + i, m), along);
    store_bf16(row.values + i, mul(mul(scale, load_bf16(row.probabilities + i, m)), difference), m);
  });
}

QUAVER_INLINE void softmax_bf16_row(const SoftmaxBf16Row& row) {
  row.probabilities ? softmax_bf16_gradient(row) : softmax_bf16_forward(row);
}

}  // namespace
}  // namespace quaver::kernels
