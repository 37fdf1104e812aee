// Fake quantization on vectors; compiled by qdq_row_avx2.cc and qdq_row_avx512.cc. Element by element the
// same operations as the scalar reference, so that values agree bit for bit; only sums over a group differ in
// order.
#pragma once

#include "kernels/qdq/group_math.h"
#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

QUAVER_INLINE float round_f16(float x) { return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }

QUAVER_INLINE Mask lanes_before(int64_t i, int64_t end) {
  return first_lanes(end - i < kLanes ? end - i : kLanes);
}

QUAVER_INLINE Vec load_as(const void* base, bool bf16, int64_t i, Mask m) {
  return bf16 ? load_bf16(static_cast<const uint16_t*>(base) + i, m)
              : load(static_cast<const float*>(base) + i, m);
}

QUAVER_INLINE void store_as(void* base, bool bf16, int64_t i, Vec v, Mask m) {
  if (bf16)
    store_bf16(static_cast<uint16_t*>(base) + i, v, m);
  else
    store(static_cast<float*>(base) + i, v, m);
}

QUAVER_INLINE GroupScale scale_of(const QdqRow& row, int64_t g, int64_t begin, int64_t end) {
  Vec low = zero(), high = zero();
  for (int64_t i = begin; i < end; i += kLanes) {  // lanes past the end load as 0, which changes nothing
    Vec w = load_as(row.w, row.w_bf16, i, lanes_before(i, end));
    low = min(low, w);
    high = max(high, w);
  }
  return group_scale(row, g, min_lane(low), max_lane(high), round_f16);
}

struct Rounded {
  Vec ratio, q;
  Mask inside;
};

QUAVER_INLINE Rounded round_elements(const QdqRow& row, const GroupScale& s, int64_t i, Mask m) {
  Vec ratio = div(load_as(row.w, row.w_bf16, i, m), splat(s.scale));
  Vec shifted = row.v ? add(ratio, load_as(row.v, row.v_bf16, i, m)) : ratio;
  shifted = add(rint(shifted), splat(s.zero));
  Vec low = splat(s.low), high = splat(s.high);
  return {ratio, min(max(shifted, low), high), both(less_equal(low, shifted), less_equal(shifted, high))};
}

QUAVER_INLINE void qdq_forward_row(const QdqRow& row) {
  for (int64_t begin = 0, g = 0; begin < row.cols; begin += row.group, ++g) {
    int64_t end = row.cols - begin < row.group ? row.cols : begin + row.group;
    GroupScale s = scale_of(row, g, begin, end);
    store_group(row, g, s);
    for (int64_t i = begin; i < end; i += kLanes) {
      Mask m = lanes_before(i, end);
      Vec q = round_elements(row, s, i, m).q;
      if (row.w_hat) store_as(row.w_hat, row.w_hat_bf16, i, mul(splat(s.scale), sub(q, splat(s.zero))), m);
      if (row.codes) narrow_u8(row.codes + i, to_int(sub(q, splat(s.low))), m);
    }
  }
}

// p - rate * sign(gradient).
QUAVER_INLINE Vec stepped(Vec p, Vec rate, Vec gradient) {
  Vec step = where(less(zero(), gradient), rate, where(less(gradient, zero()), sub(zero(), rate), zero()));
  return sub(p, step);
}

QUAVER_INLINE void update_v(const QdqRow& row, int64_t i, Vec dv, Mask m) {
  if (row.dv) store(row.dv + i, dv, m);
  if (row.v_rate == 0.0f) return;
  store_as(row.v, row.v_bf16, i, stepped(load_as(row.v, row.v_bf16, i, m), splat(row.v_rate), dv), m);
}

QUAVER_INLINE void qdq_backward_row(const QdqRow& row) {
  for (int64_t begin = 0, g = 0; begin < row.cols; begin += row.group, ++g) {
    int64_t end = row.cols - begin < row.group ? row.cols : begin + row.group;
    GroupScale s = scale_of(row, g, begin, end);
    Vec scale_sum = zero(), clamped_sum = zero();
    for (int64_t i = begin; i < end; i += kLanes) {
      Mask m = lanes_before(i, end);
      Rounded r = round_elements(row, s, i, m);
      Vec dw = load_as(row.dw_hat, row.dw_hat_bf16, i, m);  // 0 past the end
      Vec steps = sub(sub(r.q, splat(s.zero)), keep(r.inside, r.ratio));
      scale_sum = fma(dw, steps, scale_sum);
      clamped_sum = add(clamped_sum, where(r.inside, zero(), dw));
      update_v(row, i, keep(r.inside, mul(dw, splat(s.scale))), m);
    }
    finish_group(row, g, s, {sum_lanes(scale_sum), sum_lanes(clamped_sum)});
  }
}

}  // namespace
}  // namespace quaver::kernels
