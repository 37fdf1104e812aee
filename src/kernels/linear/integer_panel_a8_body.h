// Integer codes against 8-bit activations: exact integer dot products per block, scaled into float totals.
// Since integers add exactly, the only roundings are one per block, in the order of blocks: equal bits for
// any number of rows.
#pragma once

#include "kernels/linear/integer_panel_body.h"

namespace quaver::kernels {
namespace {

// sum += dot products of 4 + 4 unsigned codes per lane with signed activations, broadcast as 4 bytes each.
template <int Bits>
QUAVER_INLINE VecI dot8(VecI sum, VecI first, VecI second, VecI x_first, VecI x_second) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, first, x_first), second, x_second);
#elif defined(__AVX512F__)
  if constexpr (Bits == 4) {  // |pairs| <= 2 * 15 * 127, and the sum of two still fits 16 bits
    __m512i pairs =
        _mm512_add_epi16(_mm512_maddubs_epi16(first, x_first), _mm512_maddubs_epi16(second, x_second));
    return add_int(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  } else {  // 2 * 255 * 127 would not fit: even and odd bytes as 16-bit numbers
    auto widened = [](VecI w, VecI x) {
      __m512i even =
          _mm512_madd_epi16(and_int(w, splat_int(0x00ff00ff)), _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
      return add_int(even, _mm512_madd_epi16(_mm512_srli_epi16(w, 8), _mm512_srai_epi16(x, 8)));
    };
    return add_int(sum, add_int(widened(first, x_first), widened(second, x_second)));
  }
#else
  if constexpr (Bits == 4) {  // |pairs| <= 2 * 15 * 127, and the sum of two still fits 16 bits
    __m256i pairs =
        _mm256_add_epi16(_mm256_maddubs_epi16(first, x_first), _mm256_maddubs_epi16(second, x_second));
    return add_int(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  } else {  // 2 * 255 * 127 would not fit: even and odd bytes as 16-bit numbers
    auto widened = [](VecI w, VecI x) {
      __m256i even =
          _mm256_madd_epi16(and_int(w, splat_int(0x00ff00ff)), _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
      return add_int(even, _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8)));
    };
    return add_int(sum, add_int(widened(first, x_first), widened(second, x_second)));
  }
#endif
}

QUAVER_INLINE VecI four_bytes(const int8_t* p) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  return splat_int(bytes);
}

template <int Bits, int Rows>
struct A8Tile {
  static void run(const IntegerPanel& p, int64_t first_row) {
    const int8_t* x = p.x8 + first_row * p.padded_k;
    const float* x_scales = p.x_scales + first_row * p.blocks;
    const int32_t* x_sums = p.x_sums + first_row * p.blocks;
    const uint8_t* codes = p.codes;
    Vec total[Rows][2];
    for (int r = 0; r < Rows; ++r) total[r][0] = total[r][1] = zero();
    for (int64_t b = 0; b < p.blocks; ++b) {
      VecI sum[Rows][2];
      for (int c = 0; c < 2; ++c) {  // sum of x (code - zero) = sum of x code - zero * sum of x
        VecI z = zero_points(p, b, c);
        for (int r = 0; r < Rows; ++r) sum[r][c] = mul_int(z, splat_int(-x_sums[r * p.blocks + b]));
      }
      for (int32_t step = 0; step < p.block_steps[b]; ++step, x += 8) {
        Step w = load_step<Bits>(codes);
        codes += Bits == 4 ? kStepBytes4 : kStepBytes8;
#pragma GCC unroll 12
        for (int r = 0; r < Rows; ++r) {
          VecI x_first = four_bytes(x + r * p.padded_k), x_second = four_bytes(x + r * p.padded_k + 4);
          for (int c = 0; c < 2; ++c)
            sum[r][c] = dot8<Bits>(sum[r][c], w.first[c], w.second[c], x_first, x_second);
        }
      }
      for (int c = 0; c < 2; ++c) {
        Vec scale = load(p.scales + b * kPanelRows + c * kLanes);
        for (int r = 0; r < Rows; ++r)
          total[r][c] = fma(mul(to_float(sum[r][c]), scale), splat(x_scales[r * p.blocks + b]), total[r][c]);
      }
    }
    store_tile<Rows>(p, total, p.y + first_row * p.y_stride);
  }
};

constexpr int kA8Rows = kLanes == 16 ? 12 : 4;

}  // namespace
}  // namespace quaver::kernels
