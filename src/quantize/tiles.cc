#include "quantize/tiles.h"

#include <ATen/ops/constant_pad_nd.h>

namespace quaver::quantize {

at::Tensor tiled(const at::Tensor& matrix, Extent2d tile) {
  int64_t out = matrix.size(0), in = matrix.size(1);
  int64_t rows = (out + tile.rows - 1) / tile.rows, cols = (in + tile.cols - 1) / tile.cols;
  int64_t bottom = rows * tile.rows - out, right = cols * tile.cols - in;
  at::Tensor padded = bottom || right ? at::constant_pad_nd(matrix, {0, right, 0, bottom}) : matrix;
  return padded.view({rows, tile.rows, cols, tile.cols});
}

at::Tensor untiled(const at::Tensor& tiles, Extent2d shape) {
  return tiles.reshape({tiles.size(0) * tiles.size(1), tiles.size(2) * tiles.size(3)})
      .narrow(0, 0, shape.rows)
      .narrow(1, 0, shape.cols)
      .contiguous();
}

at::Tensor over_tiles(const at::Tensor& per_tile) { return per_tile.unsqueeze(1).unsqueeze(3); }

}  // namespace quaver::quantize
