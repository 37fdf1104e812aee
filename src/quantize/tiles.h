// Matrices cut into the tiles that share a scale.
#pragma once

#include <ATen/core/Tensor.h>

#include "formats/quant_weight.h"

namespace quaver::quantize {

// [out, in] -> [ceil(out / tile.rows), tile.rows, ceil(in / tile.cols), tile.cols], padded with zeros. A view
// where nothing is padded.
at::Tensor tiled(const at::Tensor& matrix, Extent2d tile);

// The inverse: contiguous [shape.rows, shape.cols].
at::Tensor untiled(const at::Tensor& tiles, Extent2d shape);

// [group rows, group columns] -> broadcastable over tiled().
at::Tensor over_tiles(const at::Tensor& per_tile);

}  // namespace quaver::quantize
