// Activations of one block to 8 bits on vectors; compiled by quantize_block_avx2.cc and
// quantize_block_avx512.cc.
#pragma once

#include "kernels/linear/panels.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

QUAVER_INLINE QuantizedBlock quantize_block(const float* x, int64_t n, int8_t* codes) {
  VecI largest = splat_int(0);
  for (int64_t i = 0; i < n; i += kLanes) {  // as integers: NaN orders above infinity and is not lost
    Mask m = first_lanes(n - i < kLanes ? n - i : kLanes);
    largest = max_int(largest, as_int(abs(load(x + i, m))));
  }
  int32_t bits = max_lane_int(largest);
  float max;
  __builtin_memcpy(&max, &bits, 4);
  bool finite = bits < 0x7f800000;
  float inverse = finite && max >= 0x1p-100f ? 127.0f / max : 0.0f;
  VecI sum = splat_int(0);
  for (int64_t i = 0; i < n; i += kLanes) {
    Mask m = first_lanes(n - i < kLanes ? n - i : kLanes);
    VecI code = to_int(mul(load(x + i, m), splat(inverse)));
    if (!finite) code = splat_int(0);
    sum = add_int(sum, code);
    narrow_u8(reinterpret_cast<uint8_t*>(codes) + i, code, m);
  }
  float scale = inverse == 0.0f ? 0.0f : max / 127.0f;
  return {finite ? scale : __builtin_nanf(""), sum_lanes_int(sum)};
}

}  // namespace
}  // namespace quaver::kernels
