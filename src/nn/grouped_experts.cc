#include "nn/grouped_experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/stack.h>

#include <algorithm>

namespace quaver::nn {
namespace {

using Projection = const Linear& (Mlp::*)() const;
constexpr Projection kGate = &Mlp::gate, kUp = &Mlp::up, kDown = &Mlp::down;

bool looks_at_one_row(const ActivationQuant& quant) {
  return quant.mode != ActivationQuant::Mode::kDynamic || (quant.group != 0 && quant.outlier_threshold == 0);
}

bool can_group(const std::vector<Mlp>& experts, Projection projection) {
  constexpr int64_t kMultiple = 8;
  const Linear& first = (experts.front().*projection)();
  if (first.in_features() % kMultiple != 0 || first.out_features() % kMultiple != 0) return false;
  return looks_at_one_row(first.input_quant().quant()) &&
         std::ranges::all_of(experts, [&](const Mlp& expert) {
           const Linear& layer = (expert.*projection)();
           return layer.is_dense() && layer.bias().has_value() == first.bias().has_value() &&
                  layer.input_quant().agrees_with(first.input_quant());
         });
}

// [rows, in] -> [rows, out]
at::Tensor multiply(const std::vector<Mlp>& experts, Projection projection, const at::Tensor& x,
                    const at::Tensor& sizes) {
  const Linear& first = (experts.front().*projection)();
  std::vector<at::Tensor> weights, biases;
  for (const Mlp& expert : experts) {
    const Linear& layer = (expert.*projection)();
    weights.push_back(layer.dense_weight().to(x.scalar_type()));
    if (layer.bias()) biases.push_back(layer.bias()->to(x.scalar_type()));
  }
  const at::Tensor ends = sizes.cumsum(0).to(at::kInt);
  at::Tensor y = at::_grouped_mm(first.input_quant().apply(x), at::stack(weights).transpose(1, 2),
                                 ends);  // of [experts, in, out]
  return biases.empty() ? y : y + at::stack(biases).index_select(0, at::repeat_interleave(sizes));
}

}  // namespace

bool can_group(const std::vector<Mlp>& experts) {
  return !experts.empty() && can_group(experts, kGate) && can_group(experts, kUp) &&
         can_group(experts, kDown);
}

at::Tensor grouped_experts(const std::vector<Mlp>& experts, const at::Tensor& x, const at::Tensor& sizes) {
  const at::Tensor gate = multiply(experts, kGate, x, sizes), up = multiply(experts, kUp, x, sizes);
  return multiply(experts, kDown, gated(experts.front().gating(), gate, up), sizes);
}

}  // namespace quaver::nn
