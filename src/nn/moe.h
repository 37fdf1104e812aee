// Mixture of experts: a router picks a few feed-forward layers per token and weighs their results.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/mlp.h"
#include "nn/scored_routing.h"

namespace quaver::nn {

struct MoeConfig {
  int64_t num_experts = 0, experts_per_token = 0;
  bool normalize = false;                    // the chosen weights are divided by their sum
  std::optional<ScoredRouting> scored = {};  // instead of the plain softmax
};

struct Routing {
  at::Tensor weights;  // [tokens, experts_per_token], in the activations' dtype or wider
  at::Tensor experts;  // int64, the same shape
};

// For a quantizer's calibration: experts that few tokens choose see those that suit them best as well.
struct ExpertCalibration {
  int64_t least_tokens = 0;     // that each expert sees of one call, where the call has as many
  std::vector<int64_t> routed;  // added up over calls: tokens that chose each expert
  bool showing = false;         // while an expert runs on tokens that did not choose it
};

// Softmax in float32 over all experts, then the best few; or route_scored.
Routing route(const at::Tensor& logits, const MoeConfig& config);  // [tokens, experts]

// y = sum of weight x expert(x) over the chosen experts, so that a token's result does not depend on its
// neighbours. Routers with scores of their own multiply in float32.
class Moe {
 public:
  Moe(MoeConfig config, Linear router, std::vector<Mlp> experts);
  // [tokens, hidden] -> the same. What experts make of tokens that did not choose them goes nowhere. One
  // expert after the other, in ascending order; on a GPU, weights that ask for a gradient (tuning) run
  // grouped: many small products would leave it idle. On a CPU grouping was no faster.
  at::Tensor forward(const at::Tensor& x, ExpertCalibration* calibration = nullptr) const;
  // The same as one product for each projection, a token's experts summed in order of choice. Precondition:
  // can_group (grouped_experts.h).
  at::Tensor forward_grouped(const at::Tensor& x) const;
  void prepare() const;
  std::vector<Mlp>& experts() { return experts_; }

 private:
  at::Tensor router_logits(const at::Tensor& x) const;
  bool is_tuned() const;
  void show_best_tokens(const at::Tensor& x, const at::Tensor& logits, size_t expert, const at::Tensor& own,
                        ExpertCalibration& calibration) const;

  MoeConfig config_;
  Linear router_;  // [experts, hidden]
  std::vector<Mlp> experts_;
};

}  // namespace quaver::nn
