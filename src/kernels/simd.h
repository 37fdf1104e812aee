// One spelling for the vectors of AVX2 and AVX-512, so that a kernel's body is written once and compiled in
// both its *_avx2.cc and its *_avx512.cc. Everything is in an unnamed namespace and inlined: code made for
// one instruction set must never be merged with another's. Include only from such files.
#pragma once

// GCC 12 calls the deliberately undefined registers of its own AVX-512 header uninitialised.
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#define QUAVER_INLINE inline __attribute__((always_inline))
#define QUAVER_INLINE_LAMBDA __attribute__((always_inline))

namespace quaver::kernels {
namespace {

// f(0) ... f(N - 1) with constants for indices. Arrays of vectors that are only indexed so live in registers;
// GCC unrolls a plain loop too late for that and stores them in every round.
template <int N>
struct Index {
  constexpr operator int() const { return N; }
};
template <int N, int I = 0, class F>
QUAVER_INLINE void unrolled(const F& f) {
  if constexpr (I < N) {
    f(Index<I>());
    unrolled<N, I + 1>(f);
  }
}

#if defined(__AVX512F__)

using Vec = __m512;
using VecI = __m512i;
using Mask = __mmask16;
constexpr int kLanes = 16;

QUAVER_INLINE Mask first_lanes(int64_t n) { return static_cast<Mask>((1u << n) - 1u); }  // n in [0, 16]
QUAVER_INLINE Vec zero() { return _mm512_setzero_ps(); }
QUAVER_INLINE Vec splat(float x) { return _mm512_set1_ps(x); }
QUAVER_INLINE Vec load(const float* p) { return _mm512_loadu_ps(p); }
QUAVER_INLINE Vec load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
QUAVER_INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
QUAVER_INLINE void store(float* p, Vec v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
QUAVER_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
QUAVER_INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
QUAVER_INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
QUAVER_INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
QUAVER_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
QUAVER_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b
QUAVER_INLINE Vec fms(Vec a, Vec b, Vec c) { return _mm512_fmsub_ps(a, b, c); }    // a b - c
QUAVER_INLINE Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }                // b when either is NaN
QUAVER_INLINE Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
QUAVER_INLINE Vec rint(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
QUAVER_INLINE Vec abs(Vec a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
QUAVER_INLINE Vec copy_sign(Vec magnitude, Vec sign) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
QUAVER_INLINE Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
QUAVER_INLINE Mask less_equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
QUAVER_INLINE Mask equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
QUAVER_INLINE Mask both(Mask a, Mask b) { return a & b; }
QUAVER_INLINE Mask either(Mask a, Mask b) { return a | b; }
QUAVER_INLINE uint32_t bits_of(Mask m) { return m; }
QUAVER_INLINE Vec where(Mask m, Vec yes, Vec no) { return _mm512_mask_blend_ps(m, no, yes); }
QUAVER_INLINE Vec keep(Mask m, Vec v) { return _mm512_maskz_mov_ps(m, v); }  // zero elsewhere

QUAVER_INLINE VecI as_int(Vec v) { return _mm512_castps_si512(v); }
QUAVER_INLINE Vec as_float(VecI v) { return _mm512_castsi512_ps(v); }
QUAVER_INLINE VecI splat_int(int32_t x) { return _mm512_set1_epi32(x); }
QUAVER_INLINE VecI load_int(const void* p) { return _mm512_loadu_si512(p); }
QUAVER_INLINE void store_int(void* p, VecI v) { _mm512_storeu_si512(p, v); }
QUAVER_INLINE VecI add_int(VecI a, VecI b) { return _mm512_add_epi32(a, b); }
QUAVER_INLINE VecI sub_int(VecI a, VecI b) { return _mm512_sub_epi32(a, b); }
QUAVER_INLINE VecI mul_int(VecI a, VecI b) { return _mm512_mullo_epi32(a, b); }
QUAVER_INLINE VecI and_int(VecI a, VecI b) { return _mm512_and_si512(a, b); }
QUAVER_INLINE VecI or_int(VecI a, VecI b) { return _mm512_or_si512(a, b); }
QUAVER_INLINE VecI max_int(VecI a, VecI b) { return _mm512_max_epi32(a, b); }
template <int N>
QUAVER_INLINE VecI shift_left(VecI a) {
  return _mm512_slli_epi32(a, N);
}
template <int N>
QUAVER_INLINE VecI shift_right(VecI a) {
  return _mm512_srli_epi32(a, N);
}
QUAVER_INLINE VecI to_int(Vec v) { return _mm512_cvtps_epi32(v); }
QUAVER_INLINE Vec times_power_of_two(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }  // n whole
QUAVER_INLINE Vec to_float(VecI v) { return _mm512_cvtepi32_ps(v); }
QUAVER_INLINE VecI widen_u8(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
QUAVER_INLINE VecI widen_i8(const uint8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
QUAVER_INLINE void narrow_u8(uint8_t* p, VecI v, Mask m) { _mm512_mask_cvtepi32_storeu_epi8(p, m, v); }

QUAVER_INLINE Vec load_f16(const uint16_t* p, Mask m = 0xffff) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
}
QUAVER_INLINE Vec load_bf16(const uint16_t* p, Mask m = 0xffff) {
  return as_float(shift_left<16>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p))));
}
QUAVER_INLINE __m128i load_bytes(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
// 8-bit floats as halves, which have wider exponents: the sign goes on top and the other bits go up by
// `Shift`, so that mantissas meet; the exponents then differ by a power of two that is left to the caller.
// Subnormals are subnormal halves, which convert at full speed.
template <int Shift>
QUAVER_INLINE Vec small_floats(__m128i codes) {
  __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), Shift);
  return _mm512_cvtph_ps(Shift == 8 ? half : _mm256_and_si256(half, _mm256_set1_epi16(-0x4001)));
}
// The two NaNs would read as +-480.
QUAVER_INLINE Vec load_e4m3fn(const uint8_t* p, Mask m = 0xffff) {
  Vec v = mul(small_floats<7>(_mm_maskz_loadu_epi8(m, p)), splat(256.0f));
  return where(less(splat(448.0f), abs(v)), splat(__builtin_nanf("")), v);
}
// The same of pairs of codes in 16 bits each: the low bytes, or where `Odd` the high ones.
template <int Shift, bool Odd>
QUAVER_INLINE VecI halves_of(VecI pairs) {
  VecI upper = Odd ? pairs : _mm512_slli_epi16(pairs, 8);
  if constexpr (Shift == 7) return and_int(_mm512_srai_epi16(upper, 1), _mm512_set1_epi16(-0x4080));
  return Odd ? and_int(upper, _mm512_set1_epi16(-0x100)) : upper;
}
template <int C>
QUAVER_INLINE Vec half_vector(VecI halves) {  // the lower or upper kLanes of them
  return _mm512_cvtph_ps(C == 0 ? _mm512_castsi512_si256(halves) : _mm512_extracti64x4_epi64(halves, 1));
}
// table[low four bits of each lane]
using Table16 = Vec;
QUAVER_INLINE Table16 load_table16(const float* p) { return load(p); }
QUAVER_INLINE Vec look_up(const Table16& table, VecI index) { return _mm512_permutexvar_ps(index, table); }
QUAVER_INLINE void store_f16(uint16_t* p, Vec v, Mask m = 0xffff) {
  _mm256_mask_storeu_epi16(p, m, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
QUAVER_INLINE void store_u16(uint16_t* p, VecI v, Mask m) { _mm512_mask_cvtepi32_storeu_epi16(p, m, v); }

// Lanes are added pairwise in one fixed order.
QUAVER_INLINE float sum_lanes(Vec v) {
  __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
QUAVER_INLINE float max_lane(Vec v) { return _mm512_reduce_max_ps(v); }
QUAVER_INLINE float min_lane(Vec v) { return _mm512_reduce_min_ps(v); }
QUAVER_INLINE int32_t max_lane_int(VecI v) { return _mm512_reduce_max_epi32(v); }
QUAVER_INLINE int32_t sum_lanes_int(VecI v) { return _mm512_reduce_add_epi32(v); }

#else  // AVX2 with FMA and F16C

using Vec = __m256;
using VecI = __m256i;
using Mask = __m256;  // all bits of a lane set or clear
constexpr int kLanes = 8;

QUAVER_INLINE Mask first_lanes(int64_t n) {  // n in [0, 8]
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)),
                                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}
QUAVER_INLINE Vec zero() { return _mm256_setzero_ps(); }
QUAVER_INLINE Vec splat(float x) { return _mm256_set1_ps(x); }
QUAVER_INLINE Vec load(const float* p) { return _mm256_loadu_ps(p); }
QUAVER_INLINE Vec load(const float* p, Mask m) { return _mm256_maskload_ps(p, _mm256_castps_si256(m)); }
QUAVER_INLINE void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
QUAVER_INLINE void store(float* p, Vec v, Mask m) { _mm256_maskstore_ps(p, _mm256_castps_si256(m), v); }
QUAVER_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
QUAVER_INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
QUAVER_INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
QUAVER_INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
QUAVER_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
QUAVER_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a b
QUAVER_INLINE Vec fms(Vec a, Vec b, Vec c) { return _mm256_fmsub_ps(a, b, c); }    // a b - c
QUAVER_INLINE Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }                // b when either is NaN
QUAVER_INLINE Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
QUAVER_INLINE Vec rint(Vec a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
QUAVER_INLINE Vec abs(Vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
QUAVER_INLINE Vec copy_sign(Vec magnitude, Vec sign) {
  return _mm256_or_ps(magnitude, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
QUAVER_INLINE Mask less(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
QUAVER_INLINE Mask less_equal(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
QUAVER_INLINE Mask equal(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
QUAVER_INLINE Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
QUAVER_INLINE Mask either(Mask a, Mask b) { return _mm256_or_ps(a, b); }
QUAVER_INLINE uint32_t bits_of(Mask m) { return static_cast<uint32_t>(_mm256_movemask_ps(m)); }
QUAVER_INLINE Vec where(Mask m, Vec yes, Vec no) { return _mm256_blendv_ps(no, yes, m); }
QUAVER_INLINE Vec keep(Mask m, Vec v) { return _mm256_and_ps(m, v); }  // zero elsewhere

QUAVER_INLINE VecI as_int(Vec v) { return _mm256_castps_si256(v); }
QUAVER_INLINE Vec as_float(VecI v) { return _mm256_castsi256_ps(v); }
QUAVER_INLINE VecI splat_int(int32_t x) { return _mm256_set1_epi32(x); }
QUAVER_INLINE VecI load_int(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
QUAVER_INLINE void store_int(void* p, VecI v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
QUAVER_INLINE VecI add_int(VecI a, VecI b) { return _mm256_add_epi32(a, b); }
QUAVER_INLINE VecI sub_int(VecI a, VecI b) { return _mm256_sub_epi32(a, b); }
QUAVER_INLINE VecI mul_int(VecI a, VecI b) { return _mm256_mullo_epi32(a, b); }
QUAVER_INLINE VecI and_int(VecI a, VecI b) { return _mm256_and_si256(a, b); }
QUAVER_INLINE VecI or_int(VecI a, VecI b) { return _mm256_or_si256(a, b); }
QUAVER_INLINE VecI max_int(VecI a, VecI b) { return _mm256_max_epi32(a, b); }
template <int N>
QUAVER_INLINE VecI shift_left(VecI a) {
  return _mm256_slli_epi32(a, N);
}
template <int N>
QUAVER_INLINE VecI shift_right(VecI a) {
  return _mm256_srli_epi32(a, N);
}
QUAVER_INLINE VecI to_int(Vec v) { return _mm256_cvtps_epi32(v); }
QUAVER_INLINE Vec power_of_two(Vec n) { return as_float(shift_left<23>(add_int(to_int(n), splat_int(127)))); }
// n whole, in [-252, 254]: in two factors, since one could overflow or vanish where the product does not.
QUAVER_INLINE Vec times_power_of_two(Vec v, Vec n) {
  Vec half = rint(mul(n, splat(0.5f)));
  return mul(mul(v, power_of_two(half)), power_of_two(sub(n, half)));
}
QUAVER_INLINE Vec to_float(VecI v) { return _mm256_cvtepi32_ps(v); }
QUAVER_INLINE VecI widen_u8(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
QUAVER_INLINE VecI widen_i8(const uint8_t* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
// Lanes [0, count) in memory; a mask of lanes can't be told to 8- and 16-bit stores before AVX-512.
QUAVER_INLINE int lane_count(Mask m) { return __builtin_popcount(bits_of(m)); }
QUAVER_INLINE void narrow_u8(uint8_t* p, VecI v, Mask m) {
  const char gone = -1;
  const __m128i low =
      _mm_setr_epi8(0, 4, 8, 12, gone, gone, gone, gone, gone, gone, gone, gone, gone, gone, gone, gone);
  v = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(low));
  int32_t halves[2] = {_mm256_extract_epi32(v, 0), _mm256_extract_epi32(v, 4)};
  __builtin_memcpy(p, halves, static_cast<size_t>(lane_count(m)));
}
QUAVER_INLINE Mask all_lanes() { return _mm256_castsi256_ps(_mm256_set1_epi32(-1)); }
QUAVER_INLINE __m128i load_u16(const uint16_t* p, Mask m) {
  if (bits_of(m) == 0xffu) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  alignas(16) uint16_t lanes[8] = {};
  for (int i = 0, n = lane_count(m); i < n; ++i) lanes[i] = p[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(lanes));
}
QUAVER_INLINE void store_u16(uint16_t* p, __m128i v, Mask m) {
  if (bits_of(m) == 0xffu) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
  alignas(16) uint16_t lanes[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), v);
  for (int i = 0, n = lane_count(m); i < n; ++i) p[i] = lanes[i];
}
QUAVER_INLINE Vec load_f16(const uint16_t* p, Mask m = all_lanes()) {
  return _mm256_cvtph_ps(load_u16(p, m));
}
QUAVER_INLINE __m128i load_bytes(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
// As for AVX-512; of the low eight codes.
template <int Shift>
QUAVER_INLINE Vec small_floats(__m128i codes) {
  __m128i half = _mm_slli_epi16(_mm_cvtepi8_epi16(codes), Shift);
  return _mm256_cvtph_ps(Shift == 8 ? half : _mm_and_si128(half, _mm_set1_epi16(-0x4001)));
}
QUAVER_INLINE Vec load_e4m3fn(const uint8_t* p, Mask m = all_lanes()) {
  uint64_t bytes = 0;
  __builtin_memcpy(&bytes, p, static_cast<size_t>(lane_count(m)));
  Vec v = mul(small_floats<7>(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))), splat(256.0f));
  return where(less(splat(448.0f), abs(v)), splat(__builtin_nanf("")), v);
}
template <int Shift, bool Odd>
QUAVER_INLINE VecI halves_of(VecI pairs) {
  VecI upper = Odd ? pairs : _mm256_slli_epi16(pairs, 8);
  if constexpr (Shift == 7) return and_int(_mm256_srai_epi16(upper, 1), _mm256_set1_epi16(-0x4080));
  return Odd ? and_int(upper, _mm256_set1_epi16(-0x100)) : upper;
}
template <int C>
QUAVER_INLINE Vec half_vector(VecI halves) {
  return _mm256_cvtph_ps(C == 0 ? _mm256_castsi256_si128(halves) : _mm256_extracti128_si256(halves, 1));
}
struct Table16 {
  Vec low, high;
};
QUAVER_INLINE Table16 load_table16(const float* p) { return {load(p), load(p + kLanes)}; }
QUAVER_INLINE Vec look_up(const Table16& table, VecI index) {
  Vec low = _mm256_permutevar8x32_ps(table.low, index), high = _mm256_permutevar8x32_ps(table.high, index);
  return where(as_float(shift_left<28>(index)), high, low);  // a blend goes by the uppermost bit
}
QUAVER_INLINE Vec load_bf16(const uint16_t* p, Mask m = all_lanes()) {
  return as_float(shift_left<16>(_mm256_cvtepu16_epi32(load_u16(p, m))));
}
QUAVER_INLINE void store_f16(uint16_t* p, Vec v, Mask m = all_lanes()) {
  store_u16(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), m);
}
QUAVER_INLINE void store_u16(uint16_t* p, VecI v, Mask m) {
  __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
  store_u16(p, _mm256_castsi256_si128(packed), m);
}

// Lanes are added pairwise in one fixed order.
QUAVER_INLINE float sum_lanes(Vec v) {
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
QUAVER_INLINE float max_lane(Vec v) {
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
QUAVER_INLINE float min_lane(Vec v) { return -max_lane(sub(zero(), v)); }
QUAVER_INLINE int32_t max_lane_int(VecI v) {
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
QUAVER_INLINE int32_t sum_lanes_int(VecI v) {
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}

#endif

// Fixes the register type of an integer accumulator after a loop. GCC 12 otherwise carries it twice through
// the loop, as 64-bit lanes and as 32-bit lanes, and spills half of them: the tile of 24 accumulators took
// twice the time.
QUAVER_INLINE void settle(VecI& v) { asm("" : "+v"(v)); }

// bf16 rounds to nearest, ties to even; NaN stays a quiet NaN, as in numerics/half.h.
QUAVER_INLINE VecI bf16_bits(Vec v) {
  VecI bits = as_int(v);
  VecI rounded = add_int(add_int(bits, splat_int(0x7fff)), and_int(shift_right<16>(bits), splat_int(1)));
  VecI quiet = or_int(bits, splat_int(0x400000));
  return shift_right<16>(as_int(where(equal(v, v), as_float(rounded), as_float(quiet))));
}
QUAVER_INLINE void store_bf16(uint16_t* p, Vec v, Mask m) { store_u16(p, bf16_bits(v), m); }

}  // namespace
}  // namespace quaver::kernels
