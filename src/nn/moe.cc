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

#include "nn/precision.h"

namespace quaver::nn {

namespace {

// The (token, choice) pairs in ascending order of expert, and how many each expert got.
struct Groups {
  at::Tensor tokens;            // int64 [pairs]
  at::Tensor weights;           // [pairs, 1]
  std::vector<int64_t> counts;  // per expert
};

Groups group_by_expert(const Routing& routing, int64_t num_experts) {
  at::Tensor experts = routing.experts.flatten();
  at::Tensor order = at::argsort(experts, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  at::Tensor sizes = experts.bincount({}, num_experts).cpu();
  const int64_t* counts = sizes.const_data_ptr<int64_t>();
  return {.tokens = order.floor_divide(routing.experts.size(1)),
          .weights = routing.weights.flatten().index_select(0, order).unsqueeze(1),
          .counts = {counts, counts + num_experts}};
}

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

at::Tensor Moe::forward(const at::Tensor& x, ExpertCalibration* calibration) const {
  at::Tensor logits = router_.forward(config_.scored ? x.to(at_least_float(x)) : x);
  Groups groups = group_by_expert(route(logits, config_), config_.num_experts);
  at::Tensor y = at::zeros_like(x);
  int64_t start = 0;
  for (size_t e = 0; e < experts_.size(); ++e) {
    int64_t count = groups.counts[e];
    at::Tensor tokens = groups.tokens.narrow(0, start, count);
    if (calibration) show_best_tokens(x, logits, e, tokens, *calibration);
    if (count == 0) continue;
    at::Tensor part = experts_[e].forward(x.index_select(0, tokens)) * groups.weights.narrow(0, start, count);
    y = y.index_add(0, tokens, part.to(x.scalar_type()));
    start += count;
  }
  return y;
}

}  // namespace quaver::nn
