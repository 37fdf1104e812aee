#include "models/vae/tiles.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lerp.h>

#include <algorithm>
#include <vector>

namespace quaver::models {

namespace {

constexpr int64_t kHeightAxis = 2, kWidthAxis = 3;

// Fades the first lines of `tile` in over the last ones of the tile before it.
void fade_in(at::Tensor& tile, const at::Tensor& before, int64_t overlap, int64_t axis) {
  const int64_t extent = std::min({overlap, before.size(axis), tile.size(axis)});
  if (extent == 0) return;
  std::vector<int64_t> shape(4, 1);
  shape[static_cast<size_t>(axis)] = extent;
  at::Tensor weight = (at::arange(extent, tile.options().dtype(at::kFloat)) / extent).view(shape);
  at::Tensor mine = tile.narrow(axis, 0, extent);
  at::Tensor theirs = before.narrow(axis, before.size(axis) - extent, extent);
  mine.copy_(at::lerp(theirs.to(at::kFloat), mine.to(at::kFloat), weight));
}

}  // namespace

bool needs_tiles(const at::Tensor& x, const Tiling& tiling) {
  return x.size(kHeightAxis) > tiling.tile || x.size(kWidthAxis) > tiling.tile;
}

at::Tensor in_tiles(const at::Tensor& x, const Tiling& tiling,
                    const std::function<at::Tensor(const at::Tensor&)>& body) {
  const int64_t height = x.size(kHeightAxis), width = x.size(kWidthAxis), step = tiling.tile - tiling.overlap;
  auto scaled = [&](int64_t pixels) { return pixels * tiling.num / tiling.den; };
  const int64_t overlap = scaled(tiling.overlap);
  at::Tensor y;
  std::vector<at::Tensor> above, row;
  for (int64_t top = 0; top < height; top += step, above = std::move(row), row.clear())
    for (int64_t left = 0; left < width; left += step) {
      const int64_t rows = std::min(tiling.tile, height - top), cols = std::min(tiling.tile, width - left);
      at::Tensor tile = body(x.narrow(kHeightAxis, top, rows).narrow(kWidthAxis, left, cols));
      if (top > 0) fade_in(tile, above[row.size()], overlap, kHeightAxis);
      if (left > 0) fade_in(tile, row.back(), overlap, kWidthAxis);
      if (!y.defined())
        y = at::empty({x.size(0), tile.size(1), scaled(height), scaled(width)}, tile.options());
      const int64_t kept_rows = std::min(scaled(step), tile.size(2)),
                    kept_cols = std::min(scaled(step), tile.size(3));
      y.narrow(kHeightAxis, scaled(top), kept_rows)
          .narrow(kWidthAxis, scaled(left), kept_cols)
          .copy_(tile.narrow(kHeightAxis, 0, kept_rows).narrow(kWidthAxis, 0, kept_cols));
      row.push_back(tile);
    }
  return y;
}

}  // namespace quaver::models
