// Integer codes against float activations: code - zero is exact in float, multiplies x, and the block's sum
// is scaled once. One chain per element in the order of channels: equal bits for any number of rows.
#pragma once

#include "kernels/linear/integer_panel_body.h"

namespace quaver::kernels {
namespace {

template <int Channel>
QUAVER_INLINE Vec steps_of(const Step& w, int c, VecI zero_point) {
  VecI bytes = Channel < 4 ? w.first[c] : w.second[c];
  return to_float(sub_int(and_int(shift_right<8 * (Channel % 4)>(bytes), splat_int(0xff)), zero_point));
}

template <int Rows, int Channel>
QUAVER_INLINE void channel_step(const Step& w, const VecI (&z)[2], const float* x, int64_t stride,
                                Vec (&sum)[Rows][2]) {
  Vec w0 = steps_of<Channel>(w, 0, z[0]), w1 = steps_of<Channel>(w, 1, z[1]);
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
    Vec value = splat(x[r * stride + Channel]);
    sum[r][0] = fma(value, w0, sum[r][0]);
    sum[r][1] = fma(value, w1, sum[r][1]);
  });
  if constexpr (Channel < 7) channel_step<Rows, Channel + 1>(w, z, x, stride, sum);
}

template <int Bits, int Rows>
struct A32Tile {
  static void run(const IntegerPanel& p, int64_t first_row) {
    const float* x = p.x + first_row * p.padded_k;
    const uint8_t* at = p.weight;
    Vec total[Rows][2];
    unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA { total[r][0] = total[r][1] = zero(); });
    for (int64_t b = 0; b < p.blocks; ++b) {
      const float* scales = reinterpret_cast<const float*>(at);
      at += kPanelRows * sizeof(float);
      VecI z[2] = {zero_points(p, b, 0), zero_points(p, b, 1)};
      Vec sum[Rows][2];
      unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA { sum[r][0] = sum[r][1] = zero(); });
      for (int32_t step = 0; step < p.block_steps[b]; ++step, x += 8) {
        channel_step<Rows, 0>(load_step<Bits>(at), z, x, p.padded_k, sum);
        at += Bits == 4 ? kStepBytes4 : kStepBytes8;
      }
      unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
        total[r][0] = fma(sum[r][0], load(scales), total[r][0]);
        total[r][1] = fma(sum[r][1], load(scales + kLanes), total[r][1]);
      });
    }
    store_tile<Rows>(p, total, p.y + first_row * p.y_stride);
  }
};

constexpr int kA32Rows = kLanes == 16 ? 11 : 4;  // room for the unpacked codes beside the accumulators

}  // namespace
}  // namespace quaver::kernels
