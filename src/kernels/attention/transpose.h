// Transposes a square of kLanes x kLanes floats in registers. Include only from *_avx2.cc and *_avx512.cc
// files.
#pragma once

#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

#if defined(__AVX512F__)

QUAVER_INLINE Vec low_pairs(Vec a, Vec b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
QUAVER_INLINE Vec high_pairs(Vec a, Vec b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
QUAVER_INLINE Vec low_singles(Vec a, Vec b) { return _mm512_unpacklo_ps(a, b); }
QUAVER_INLINE Vec high_singles(Vec a, Vec b) { return _mm512_unpackhi_ps(a, b); }

// u[4 g + c] holds, in its quarter q, column 4 q + c of rows 4 g ... 4 g + 3.
QUAVER_INLINE void join_quarters(const Vec (&u)[kLanes], Vec (&out)[kLanes]) {
  for (int c = 0; c < 4; ++c) {
    Vec low01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x44),
        high01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xee);
    Vec low23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x44),
        high23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xee);
    out[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    out[4 + c] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    out[8 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    out[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

#else

QUAVER_INLINE Vec low_pairs(Vec a, Vec b) {
  return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
QUAVER_INLINE Vec high_pairs(Vec a, Vec b) {
  return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
QUAVER_INLINE Vec low_singles(Vec a, Vec b) { return _mm256_unpacklo_ps(a, b); }
QUAVER_INLINE Vec high_singles(Vec a, Vec b) { return _mm256_unpackhi_ps(a, b); }

// u[4 g + c] holds, in its half h, column 4 h + c of rows 4 g ... 4 g + 3.
QUAVER_INLINE void join_quarters(const Vec (&u)[kLanes], Vec (&out)[kLanes]) {
  for (int c = 0; c < 4; ++c) {
    out[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
    out[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
  }
}

#endif

QUAVER_INLINE void transpose(const Vec (&in)[kLanes], Vec (&out)[kLanes]) {
  Vec u[kLanes];
  for (int g = 0; g < kLanes; g += 4) {
    Vec a = low_singles(in[g], in[g + 1]), b = high_singles(in[g], in[g + 1]);
    Vec c = low_singles(in[g + 2], in[g + 3]), d = high_singles(in[g + 2], in[g + 3]);
    u[g] = low_pairs(a, c);
    u[g + 1] = high_pairs(a, c);
    u[g + 2] = low_pairs(b, d);
    u[g + 3] = high_pairs(b, d);
  }
  join_quarters(u, out);
}

}  // namespace
}  // namespace quaver::kernels
