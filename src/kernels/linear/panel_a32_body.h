// Codes of any kind against float activations: what a code stands for is exact in float, multiplies x, and
// the block's sum is scaled once; where there are minima, the whole weight is made first. One chain per
// element in the order of channels: equal bits for any number of rows.
#pragma once

#include "kernels/linear/code_panel_body.h"

namespace quaver::kernels {
namespace {

// `Codes` says what the codes of a panel stand for: enter(panel, block); load(kStepBytes, 8 channels) ->
// Step; value<Channel, vector of rows>(Step); whole(value or sum of values), which multiplies a power of two
// in that values leave out; and kRows, the rows of x in a tile.

// w = scale * value: the scale waits for the block's sum.
template <class Codes>
struct Scaled : Codes {
  const uint8_t* scales = nullptr;
  RowPair scale;

  QUAVER_INLINE explicit Scaled(const CodePanel& p) : Codes(p) {}
  QUAVER_INLINE const uint8_t* enter(const CodePanel& p, int64_t block, const uint8_t* at) {
    Codes::enter(p, block);
    scales = at;
    return at + kPanelRows * p.scales.bytes;
  }
  template <int Channel, int C>
  QUAVER_INLINE Vec weight(const typename Codes::Step& step) const {
    return Codes::template value<Channel, C>(step);
  }
  QUAVER_INLINE void leave(const CodePanel& p, int64_t block) {
    scale = load_scales(p.scales, block, scales);
  }
  QUAVER_INLINE Vec total(Vec before, Vec sum, int c) const {
    return fma(Codes::whole(sum), scale.of[c], before);
  }
};

// w = scale * value - min.
template <class Codes>
struct Offset : Codes {
  RowPair scale, min;

  QUAVER_INLINE explicit Offset(const CodePanel& p) : Codes(p) {}
  QUAVER_INLINE const uint8_t* enter(const CodePanel& p, int64_t block, const uint8_t* at) {
    Codes::enter(p, block);
    const uint8_t* mins = at + kPanelRows * p.scales.bytes;
    scale = load_scales(p.scales, block, at);
    min = load_scales(p.mins, block, mins);
    return mins + kPanelRows * p.mins.bytes;
  }
  template <int Channel, int C>
  QUAVER_INLINE Vec weight(const typename Codes::Step& step) const {
    return fms(Codes::whole(Codes::template value<Channel, C>(step)), scale.of[C], min.of[C]);
  }
  QUAVER_INLINE void leave(const CodePanel&, int64_t) {}
  QUAVER_INLINE Vec total(Vec before, Vec sum, int) const { return add(before, sum); }
};

template <int Rows, int Channel, class Weights>
QUAVER_INLINE void channel_step(const Weights& weights, const typename Weights::Step& step, const float* x,
                                int64_t stride, Vec (&sum)[Rows][2]) {
  Vec w0 = weights.template weight<Channel, 0>(step), w1 = weights.template weight<Channel, 1>(step);
  unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
    Vec value = splat(x[r * stride + Channel]);
    sum[r][0] = fma(value, w0, sum[r][0]);
    sum[r][1] = fma(value, w1, sum[r][1]);
  });
  if constexpr (Channel < 7) channel_step<Rows, Channel + 1>(weights, step, x, stride, sum);
}

template <class Weights, int Rows>
struct A32Tile {
  static void run(const CodePanel& p, int64_t first_row) {
    const float* x = p.x + first_row * p.padded_k;
    const uint8_t* at = p.weight;
    Weights weights(p);
    Vec total[Rows][2];
    unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA { total[r][0] = total[r][1] = zero(); });
    for (int64_t b = 0; b < p.blocks; ++b) {
      at = weights.enter(p, b, at);
      Vec sum[Rows][2];
      unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA { sum[r][0] = sum[r][1] = zero(); });
      for (int32_t step = 0; step < p.block_steps[b]; ++step, x += 8) {
        channel_step<Rows, 0>(weights, weights.load(at), x, p.padded_k, sum);
        at += Weights::kStepBytes;
      }
      weights.leave(p, b);
      unrolled<Rows>([&](auto r) QUAVER_INLINE_LAMBDA {
        total[r][0] = weights.total(total[r][0], sum[r][0], 0);
        total[r][1] = weights.total(total[r][1], sum[r][1], 1);
      });
    }
    store_tile<Rows>(p, total, p.y + first_row * p.y_stride);
  }
};

template <class Codes>
QUAVER_INLINE void a32_panel(const CodePanel& p) {
  if (p.mins.bytes == 0) return all_rows<A32Tile, Scaled<Codes>, Codes::kRows>(p);
  all_rows<A32Tile, Offset<Codes>, Codes::kRows>(p);
}

}  // namespace
}  // namespace quaver::kernels
