// The router that scores experts one way and chooses them another: biases for the choice, groups of experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace quaver::nn {

struct MoeConfig;
struct Routing;

struct ScoredRouting {
  enum class Scores { kSoftmax, kSigmoid } scores = Scores::kSoftmax;
  at::Tensor choice_bias =
      {};  // float32 [experts]; added to the scores for the choice alone; undefined: none
  // Experts lie in `groups` runs of equal length, of which a token may use the best `groups_kept`. A group is
  // worth the sum of its best `judged_by` experts.
  int64_t groups = 1, groups_kept = 1, judged_by = 1;
  double weight_scale = 1;  // of the chosen experts' weights, after they are normalized
};

// Scores in float32 over all experts, the best experts of the best groups by score plus bias, weights from
// the scores alone. `config.scored` says how; weights stay in float32 (or double).
Routing route_scored(const at::Tensor& logits, const MoeConfig& config);  // [tokens, experts]

}  // namespace quaver::nn
