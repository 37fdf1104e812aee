// Rotates one bf16 head on vectors; compiled by rope_bf16_head_avx2.cc and rope_bf16_head_avx512.cc.
#pragma once

#include "kernels/rope/rope_bf16_head.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

QUAVER_INLINE void rope_bf16_head(const RopeBf16Head& head) {
  for (int64_t i = 0; i < head.half; i += kLanes) {
    Mask m = first_lanes(head.half - i < kLanes ? head.half - i : kLanes);
    Vec a = load_bf16(head.x + i, m), b = load_bf16(head.x + head.half + i, m);
    Vec c = load(head.cos + i, m), s = mul(splat(head.sign), load(head.sin + i, m));
    store_bf16(head.y + i, fnma(b, s, mul(a, c)), m);
    store_bf16(head.y + head.half + i, fma(a, s, mul(b, c)), m);
  }
}

}  // namespace
}  // namespace quaver::kernels
