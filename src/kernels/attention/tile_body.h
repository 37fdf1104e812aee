// An attention tile on vectors; compiled by tile_avx2.cc and tile_avx512.cc. Chunk by chunk: scores as a
// small matrix product against transposed keys, a running softmax per row, and a second product with the
// values.
#pragma once

#include "kernels/attention/tile.h"
#include "kernels/attention/transpose.h"
#include "kernels/panel_tile.h"
#include "kernels/simd_math.h"

namespace quaver::kernels {
namespace {

const float kInfinity = __builtin_inff();

QUAVER_INLINE Mask lanes_at(int64_t i, int64_t n) {
  int64_t left = n - i;
  return first_lanes(left < 0 ? 0 : (left < kLanes ? left : kLanes));
}

template <KvElement Element>
QUAVER_INLINE Vec load_kv(const char* row, int64_t i, Mask m) {
  if constexpr (Element == KvElement::kF32) return load(reinterpret_cast<const float*>(row) + i, m);
  if constexpr (Element == KvElement::kE4M3FN)
    return load_e4m3fn(reinterpret_cast<const uint8_t*>(row) + i, m);
  const auto* half = reinterpret_cast<const uint16_t*>(row) + i;
  return Element == KvElement::kF16 ? load_f16(half, m) : load_bf16(half, m);
}

struct TileScratch {
  float* keys;     // [head_dim padded, kChunk]
  float* values;   // [kChunk, padded]
  float* scores;   // [rows, kChunk]
  float* queries;  // [rows, padded], times scale
  int64_t padded, rows;

  explicit TileScratch(const AttentionTile& t)
      : keys(t.scratch),
        values(keys + t.out_stride * kChunk),
        scores(values + t.out_stride * kChunk),
        queries(scores + t.tokens * t.group * kChunk),
        padded(t.out_stride),
        rows(t.tokens * t.group) {}
};

void load_queries(const AttentionTile& t, const TileScratch& s) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* q = t.q + r / t.group * t.q_stride + r % t.group * t.head_dim;
    for (int64_t i = 0; i < t.head_dim; i += kLanes) {
      Mask m = lanes_at(i, t.head_dim);
      store(s.queries + r * s.padded + i, mul(load(q + i, m), splat(t.scale)));
    }
  }
}

// Where `count` consecutive positions are; a division per position would cost as much as its products.
void find_rows(const KvRows& all, int64_t begin, int64_t count, const char** rows) {
  int64_t place = all.table ? begin % all.block_size : 0;
  const char* row = all.row(begin);
  for (int64_t p = 0; p < count; ++p, row += all.row_stride, ++place) {
    if (all.table && place == all.block_size) {
      row = all.row(begin + p);
      place = 0;
    }
    rows[p] = row;
  }
}

// Keys of `count` positions from `begin` on, transposed. Columns past `count` hold anything: their scores are
// masked.
template <KvElement Element>
void load_keys(const AttentionTile& t, const TileScratch& s, int64_t begin, int64_t count) {
  const char* rows[kChunk];
  find_rows(t.keys, begin, count, rows);
  for (int64_t p = 0; p < count; p += kLanes)
    for (int64_t i = 0; i < t.head_dim; i += kLanes) {
      Vec in[kLanes], out[kLanes];
      Mask m = lanes_at(i, t.head_dim);
      for (int64_t j = 0; j < kLanes; ++j) in[j] = load_kv<Element>(rows[p + j < count ? p + j : p], i, m);
      transpose(in, out);
      for (int64_t j = 0; j < kLanes; ++j) store(s.keys + (i + j) * kChunk + p, out[j]);
    }
}

template <KvElement Element>
void load_values(const AttentionTile& t, const TileScratch& s, int64_t begin, int64_t count) {
  const char* rows[kChunk];
  find_rows(t.values, begin, count, rows);
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = 0; i < s.padded; i += kLanes)
      store(s.values + p * s.padded + i, load_kv<Element>(rows[p], i, lanes_at(i, t.head_dim)));
}

QUAVER_INLINE float exp_one(float x) {
  float lanes[kLanes];
  store(lanes, exp(splat(x)));
  return lanes[0];
}

// Turns a row's scores into weights and brings its state up to the new maximum. Columns [first, last) are
// visible.
QUAVER_INLINE void softmax_row(const AttentionTile& t, float* scores, int64_t r, int64_t first,
                               int64_t last) {
  Vec best = splat(-kInfinity), s[kChunk / kLanes];
  Mask visible[kChunk / kLanes];
  for (int64_t c = 0; c < kChunk / kLanes; ++c) {
    int64_t i = c * kLanes;
    visible[c] = less(keep(lanes_at(i, first), splat(1.0f)), keep(lanes_at(i, last), splat(1.0f)));
    s[c] = load(scores + i);
    if (t.softcap > 0) s[c] = mul(splat(t.softcap), tanh(div(s[c], splat(t.softcap))));
    best = max(where(visible[c], s[c], splat(-kInfinity)), best);
  }
  float highest = max_lane(best), new_max = highest > t.max[r] ? highest : t.max[r];
  Vec sum = zero();
  for (int64_t c = 0; c < kChunk / kLanes; ++c) {
    Vec weight = keep(visible[c], exp(sub(s[c], splat(new_max))));
    sum = add(sum, weight);
    store(scores + c * kLanes, weight);
  }
  float shrink = exp_one(t.max[r] - new_max);
  t.sum[r] = __builtin_fmaf(t.sum[r], shrink, sum_lanes(sum));
  t.max[r] = new_max;
  if (shrink == 1.0f) return;
  for (int64_t i = 0; i < t.out_stride; i += kLanes) {
    float* out = t.out + r * t.out_stride + i;
    store(out, mul(load(out), splat(shrink)));
  }
}

QUAVER_INLINE void clear_row(float* scores) {
  for (int64_t i = 0; i < kChunk; i += kLanes) store(scores + i, zero());
}

template <KvElement Element>
void run_chunk(const AttentionTile& t, const TileScratch& s, int64_t begin, int64_t count) {
  load_keys<Element>(t, s, begin, count);
  for (int64_t p = 0; p < count; p += kPanel)
    panel_rows({s.queries, s.padded, s.keys + p, kChunk, t.head_dim, s.scores + p, kChunk, false}, s.rows);
  for (int64_t r = 0; r < s.rows; ++r) {
    int64_t position = t.first_position + r / t.group - begin;
    int64_t last = position + 1 < count ? position + 1 : count;
    int64_t first = t.window > 0 && position - t.window + 1 > 0 ? position - t.window + 1 : 0;
    if (first < last)
      softmax_row(t, s.scores + r * kChunk, r, first, last);
    else
      clear_row(s.scores + r * kChunk);
  }
  load_values<Element>(t, s, begin, count);
  for (int64_t c = 0; c < s.padded; c += kPanel)
    panel_rows({s.scores, kChunk, s.values + c, s.padded, count, t.out + c, t.out_stride, true}, s.rows);
}

template <KvElement Element>
void run_chunks(const AttentionTile& t) {
  TileScratch s(t);
  load_queries(t, s);
  for (int64_t begin = t.begin; begin < t.end; begin += kChunk)
    run_chunk<Element>(t, s, begin, t.end - begin < kChunk ? t.end - begin : kChunk);
}

QUAVER_INLINE void attention_tile(const AttentionTile& t) {
  if (t.element == KvElement::kF32) return run_chunks<KvElement::kF32>(t);
  if (t.element == KvElement::kF16) return run_chunks<KvElement::kF16>(t);
  if (t.element == KvElement::kE4M3FN) return run_chunks<KvElement::kE4M3FN>(t);
  run_chunks<KvElement::kBF16>(t);
}

QUAVER_INLINE void store_kv_row(char* target, const float* row, int64_t n, KvElement element, float scale) {
  if (element == KvElement::kE4M3FN) return store_kv_row_scalar(target, row, n, element, scale);
  for (int64_t i = 0; i < n; i += kLanes) {
    Mask m = lanes_at(i, n);
    Vec v = load(row + i, m);
    if (element == KvElement::kF32)
      store(reinterpret_cast<float*>(target) + i, v, m);
    else if (element == KvElement::kF16)
      store_f16(reinterpret_cast<uint16_t*>(target) + i, v, m);
    else
      store_bf16(reinterpret_cast<uint16_t*>(target) + i, v, m);
  }
}

}  // namespace
}  // namespace quaver::kernels
