// A large picture worked on in overlapping tiles whose seams are blended away.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace quaver::models {

// Sides of square tiles, in pixels of the input. `num` / `den` are the output's pixels per pixel of the
// input; tile and overlap times that ratio are whole.
struct Tiling {
  int64_t tile, overlap;  // 0 <= overlap <= tile / 2
  int64_t num = 1, den = 1;
};

// True when one tile does not hold the picture.
bool needs_tiles(const at::Tensor& x, const Tiling& tiling);

// Applies `body` to tiles that begin every tile - overlap pixels, cut off at the picture's end. Where two
// overlap, the weight of the later one grows linearly from 0 on the first line, first downwards, then to the
// right, as diffusers does.
at::Tensor in_tiles(const at::Tensor& x,  // [batch, channels, h, w]
                    const Tiling& tiling,
                    const std::function<at::Tensor(const at::Tensor&)>& body);  // -> [batch, .., h', w']

}  // namespace quaver::models
