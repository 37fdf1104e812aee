#include "nn/moe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "nn/grouped_experts.h"
#include "nn/precision.h"

namespace quaver::nn {

namespace {

// The (token, choice) pairs in ascending order of expert, and how many each expert got.
struct Groups {
  at::Tensor order;  // int64 [pairs]: places in Routing::experts, row-major
  at::Tensor sizes;  // int64 [experts]
};

Groups group_by_expert(const Routing& routing, int64_t num_experts) {
  at::Tensor experts = routing.experts.flatten();
  return {.order = at::argsort(experts, /*stable=*/true, /*dim=*/0, /*descending=*/false),
          .sizes = experts.bincount({}, num_experts)};
}

bool wants_gradient(const Linear& layer) { return layer.is_dense() && layer.dense_weight().requires_grad(); }

}  // namespace

Routing route(const at::Tensor& logits, const MoeConfig& config) {
  if (config.scored) return route_scored(logits, config);
  at::Tensor probabilities = at::softmax(logits, -1, at_least_float(logits));
  auto [weights, experts] = at::topk(probabilities, config.experts_per_token, -1);
  at::Tensor shares = config.normalize ? weights / weights.sum(-1, /*keepdim=*/true) : weights;
  return {shares.to(logits.scalar_type()), experts};
}

Moe::Moe(MoeConfig config, Linear router, std::vector<Mlp> experts)
    : config_(config), router_(std::move(router)), experts_(std::move(experts)) {}

void Moe::prepare() const {
  router_.prepare();
  for (const Mlp& expert : experts_) expert.prepare();
}

// `own`: the tokens that chose this expert.
void Moe::show_best_tokens(const at::Tensor& x, const at::Tensor& logits, size_t expert,
                           const at::Tensor& own, ExpertCalibration& calibration) const {
  calibration.routed.resize(experts_.size());
  calibration.routed[expert] += own.size(0);
  const int64_t missing = std::min(calibration.least_tokens, x.size(0)) - own.size(0);
  if (missing <= 0) return;
  at::Tensor others = logits.select(1, static_cast<int64_t>(expert)).to(at::kFloat).clone();
  others.index_fill_(0, own, -std::numeric_limits<float>::infinity());
  calibration.showing = true;
  experts_[expert].forward(x.index_select(0, std::get<1>(at::topk(others, missing))));
  calibration.showing = false;
}

at::Tensor Moe::router_logits(const at::Tensor& x) const {
  return router_.forward(config_.scored ? x.to(at_least_float(x)) : x);
}

bool Moe::is_tuned() const {
  return std::ranges::any_of(experts_, [](const Mlp& expert) {
    return wants_gradient(expert.gate()) || wants_gradient(expert.up()) || wants_gradient(expert.down());
  });
}

at::Tensor Moe::forward(const at::Tensor& x, ExpertCalibration* calibration) const {
  if (x.is_cuda() && !calibration && is_tuned() && can_group(experts_)) return forward_grouped(x);
  at::Tensor logits = router_logits(x);
  const Routing routing = route(logits, config_);
  const auto [order, sizes] = group_by_expert(routing, config_.num_experts);
  const at::Tensor all_tokens = order.floor_divide(routing.experts.size(1)), counts = sizes.cpu(),
                   weights = routing.weights.flatten().index_select(0, order).unsqueeze(1);
  at::Tensor y = at::zeros_like(x);
  int64_t start = 0;
  for (size_t e = 0; e < experts_.size(); ++e) {
    const int64_t count = counts.const_data_ptr<int64_t>()[e];
    at::Tensor tokens = all_tokens.narrow(0, start, count);
    if (calibration) show_best_tokens(x, logits, e, tokens, *calibration);
    if (count == 0) continue;
    at::Tensor part = experts_[e].forward(x.index_select(0, tokens)) * weights.narrow(0, start, count);
    y = y.index_add(0, tokens, part.to(x.scalar_type()));
    start += count;
  }
  return y;
}

// Tokens are copied for each choice before they are sorted, and sorted back before they are summed: then no
// two threads add to the same place, forward or backward, whose order would change the result from run to
// run.
at::Tensor Moe::forward_grouped(const at::Tensor& x) const {
  const Routing routing = route(router_logits(x), config_);
  const auto [order, sizes] = group_by_expert(routing, config_.num_experts);
  const std::vector<int64_t> by_choice = {x.size(0), routing.experts.size(1), x.size(1)};
  const at::Tensor copies = x.unsqueeze(1).expand(by_choice).flatten(0, 1);
  const at::Tensor parts = grouped_experts(experts_, copies.index_select(0, order), sizes);
  const at::Tensor chosen = parts.index_select(0, at::argsort(order)).view(by_choice);
  return (chosen * routing.weights.unsqueeze(2)).sum(1).to(x.scalar_type());
}

}  // namespace quaver::nn
