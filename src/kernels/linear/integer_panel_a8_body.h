// Integer codes against 8-bit activations: exact integer dot products per block, scaled into float totals.
// Since integers add exactly, the only roundings are one per block, in the order of blocks: equal bits for
// any number of rows.
#pragma once

#include "kernels/linear/code_panel_body.h"

namespace quaver::kernels {
namespace {

// sum += dot products of 4 + 4 unsigned codes per lane with signed activations, broadcast as 4 bytes each.
template <int Bits>
QUAVER_INLINE VecI dot8(VecI sum, VecI first, VecI second, VecI x_first, VecI x_second) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, first, x_first), second, x_second);
#elif defined(__AVX512F__)
  if constexpr (Bits <= 4) {  // |pairs| <= 2 * 15 * 127, and the sum of two still fits 16 bits
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
  if constexpr (Bits <= 4) {  // |pairs| <= 2 * 15 * 127, and the sum of two still fits 16 bits
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

template <int Bits>
struct IntegerBits {
  static constexpr int kBits = Bits;
};

template <class Codes, int Rows>
struct A8Tile {
  static void run(const CodePanel& p, int64_t first_row) {
    constexpr int kBits = Codes::kBits;
    const int8_t* x = p.x8 + first_row * p.padded_k;
    const float* x_scales = p.x_scales + first_row * p.blocks;
    const int32_t* x_sums = p.x_sums + first_row * p.blocks;
    const uint8_t* at = p.weight;
    const int64_t scale_bytes = kPanelRows * p.scales.bytes, min_bytes = kPanelRows * p.mins.bytes;
    Vec total[Rows][2];
    unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA { total[r][0] = total[r][1] = zero(); });
    for (int64_t b = 0; b < p.blocks; ++b) {
      const uint8_t* scales_at = at;
      at += scale_bytes + min_bytes;
      VecI sum[Rows][2];
      VecI z[2] = {zero_points(p, b, 0), zero_points(p, b, 1)};
      unrolled<Rows>([&](auto r)
                         QUAVER_INLINE_LAMBDA {  // sum of x (code - zero) = sum of x code - zero * sum of x
                           VecI x_sum = splat_int(-x_sums[r * p.blocks + b]);
                           sum[r][0] = mul_int(z[0], x_sum);
                           sum[r][1] = mul_int(z[1], x_sum);
                         });
      for (int32_t step = 0; step < p.block_steps[b]; ++step, x += 8) {
        Step w = load_step<kBits>(at);
        at += kPanelRows * kBits;
        unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
          VecI x_first = four_bytes(x + r * p.padded_k), x_second = four_bytes(x + r * p.padded_k + 4);
          sum[r][0] = dot8<kBits>(sum[r][0], w.first[0], w.second[0], x_first, x_second);
          sum[r][1] = dot8<kBits>(sum[r][1], w.first[1], w.second[1], x_first, x_second);
        });
      }
      RowPair scale = load_scales(p.scales, b, scales_at);
      unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
        settle(sum[r][0]);
        settle(sum[r][1]);
        Vec x_scale = splat(x_scales[r * p.blocks + b]);
        total[r][0] = fma(mul(to_float(sum[r][0]), scale.of[0]), x_scale, total[r][0]);
        total[r][1] = fma(mul(to_float(sum[r][1]), scale.of[1]), x_scale, total[r][1]);
      });
      if (min_bytes == 0) continue;
      RowPair min = load_scales(p.mins, b, scales_at + scale_bytes);
      unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {  // the minimum stands for every channel alike
        Vec x_sum = splat(static_cast<float>(x_sums[r * p.blocks + b]) * x_scales[r * p.blocks + b]);
        total[r][0] = fnma(min.of[0], x_sum, total[r][0]);
        total[r][1] = fnma(min.of[1], x_sum, total[r][1]);
      });
    }
    store_tile<Rows>(p, total, p.y + first_row * p.y_stride);
  }
};

constexpr int kA8Rows = kLanes == 16 ? 12 : 4;

QUAVER_INLINE void integer_a8_panel(const CodePanel& p) {
  if (p.bits == 2) return all_rows<A8Tile, IntegerBits<2>, kA8Rows>(p);
  if (p.bits == 4) return all_rows<A8Tile, IntegerBits<4>, kA8Rows>(p);
  all_rows<A8Tile, IntegerBits<8>, kA8Rows>(p);
}

}  // namespace
}  // namespace quaver::kernels
