#include "quantize/range_search.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "quantize/aten_threads.h"
#include "quantize/tiles.h"

namespace quaver::quantize {
namespace {

constexpr int kLowest = 15, kHighest = 75;   // in fiftieths
constexpr int64_t kPieceElements = 1 << 17;  // stays in a cache

at::Tensor tile_errors(const at::Tensor& fake, const at::Tensor& weight, const at::Tensor& importance,
                       Extent2d tile) {
  at::Tensor errors = (fake.to(at::kFloat) - weight).square_();
  if (importance.defined()) errors.mul_(importance);
  return tiled(errors, tile).sum({1, 3});
}

int64_t rows_per_piece(const at::Tensor& weight, Extent2d tile) {
  if (!weight.is_cpu()) return weight.size(0);
  return std::max<int64_t>(1, kPieceElements / (weight.size(1) * tile.rows)) * tile.rows;
}

}  // namespace

at::Tensor search_ranges(const at::Tensor& weight, Extent2d tile, const at::Tensor& importance,
                         const FakeRows& fake) {
  int64_t out = weight.size(0), tile_rows = (out + tile.rows - 1) / tile.rows;
  at::Tensor ratios = at::ones({tile_rows, (weight.size(1) + tile.cols - 1) / tile.cols},
                               at::TensorOptions(at::kFloat).device(weight.device()));
  auto search_rows = [&](int64_t first, int64_t count) {
    at::NoGradGuard no_grad;
    at::Tensor part = weight.narrow(0, first, count).to(at::kFloat);
    at::Tensor ratio = ratios.narrow(0, first / tile.rows, (count + tile.rows - 1) / tile.rows);
    auto errors_at = [&](float r) { return tile_errors(fake(first, count, r), part, importance, tile); };
    at::Tensor best = errors_at(1.0f);
    for (int step = kLowest; step <= kHighest; ++step) {
      float r = static_cast<float>(step) / 50.0f;
      at::Tensor errors = errors_at(r);
      ratio.masked_fill_(errors < best, r);
      best = at::minimum(errors, best);
    }
  };
  int64_t piece = rows_per_piece(weight, tile);
  if (!weight.is_cpu()) {
    search_rows(0, out);
    return ratios;
  }
  global_thread_pool().parallel_for((out + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    AtenThreads alone(1);
    for (int64_t i = begin; i < end; ++i) search_rows(i * piece, std::min(piece, out - i * piece));
  });
  return ratios;
}

}  // namespace quaver::quantize
