#include "nn/scored_routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "nn/moe.h"
#include "nn/precision.h"

namespace quaver::nn {

namespace {

// Sigmoids in double and rounded: a vector's float32 exponential and a single one's differ in their last bit,
// and which of them a token got would depend on its neighbours.
at::Tensor scores_of(const at::Tensor& logits, ScoredRouting::Scores scores) {
  if (scores == ScoredRouting::Scores::kSoftmax) return at::softmax(logits, -1, at_least_float(logits));
  return at::sigmoid(logits.to(at::kDouble)).to(at_least_float(logits));
}

// Experts outside of the best groups are put below all others.
at::Tensor within_best_groups(const at::Tensor& choice, const ScoredRouting& routing) {
  if (routing.groups_kept == routing.groups) return choice;
  at::Tensor grouped = choice.unflatten(-1, {routing.groups, -1});  // [tokens, groups, experts of a group]
  at::Tensor worth = std::get<0>(at::topk(grouped, routing.judged_by, -1)).sum(-1);
  at::Tensor best = std::get<1>(at::topk(worth, routing.groups_kept, -1));
  at::Tensor kept = at::zeros_like(worth).scatter(-1, best, 1.0);
  return grouped.masked_fill(kept.eq(0).unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(-2);
}

// The sum of the chosen scores may be zero where they are sigmoids.
constexpr double kLeastSum = 1e-20;

}  // namespace

Routing route_scored(const at::Tensor& logits, const MoeConfig& config) {
  const ScoredRouting& routing = *config.scored;
  at::Tensor scores = scores_of(logits, routing.scores);
  at::Tensor choice = routing.choice_bias.defined() ? scores + routing.choice_bias : scores;
  at::Tensor experts =
      std::get<1>(at::topk(within_best_groups(choice, routing), config.experts_per_token, -1));
  at::Tensor weights = scores.gather(-1, experts);
  if (config.normalize) weights = weights / (weights.sum(-1, /*keepdim=*/true) + kLeastSum);
  return {weights * routing.weight_scale, experts};
}

}  // namespace quaver::nn
