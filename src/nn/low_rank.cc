#include "nn/low_rank.h"

#include <ATen/ops/linear.h>

#include <utility>

namespace quaver::nn {

namespace {

thread_local const std::vector<double>* t_scales = nullptr;

double scale_of(int64_t adapter) {
  const std::span<const double> scales = low_rank_scales();
  const auto index = static_cast<size_t>(adapter);
  return index < scales.size() ? scales[index] : 0;
}

}  // namespace

LowRankScope::LowRankScope(std::vector<double> scales) : scales_(std::move(scales)), outer_(t_scales) {
  t_scales = &scales_;
}

LowRankScope::~LowRankScope() { t_scales = outer_; }

std::span<const double> low_rank_scales() {
  return t_scales ? std::span<const double>(*t_scales) : std::span<const double>();
}

void add_low_rank(std::span<const Linear::LowRank> updates, const at::Tensor& x, at::Tensor& y) {
  for (const Linear::LowRank& update : updates) {
    const double scale = scale_of(update.adapter);
    if (scale == 0) continue;
    const at::Tensor inner = at::linear(x.flatten(0, -2), update.down.to(x.scalar_type()));
    // One product that adds to y: the update is not rounded by itself.
    y.view({-1, y.size(-1)}).addmm_(inner, update.up.to(y.scalar_type()).t(), 1, scale);
  }
}

}  // namespace quaver::nn
