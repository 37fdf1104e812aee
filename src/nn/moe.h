// Mixture of experts: a router picks a few feed-forward layers per token and weighs their results.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "nn/mlp.h"

namespace quaver::nn {

struct MoeConfig {
  int64_t num_experts = 0, experts_per_token = 0;
  bool normalize = false;  // the chosen weights are divided by their sum
};

struct Routing {
  at::Tensor weights;  // [tokens, experts_per_token], in the activations' dtype
  at::Tensor experts;  // int64, the same shape
};

// Softmax in float32 over all experts, then the best few.
Routing route(const at::Tensor& logits, const MoeConfig& config);  // [tokens, experts]

// y = sum of weight x expert(x) over the chosen experts, in ascending order of expert, so that a token's
// result does not depend on its neighbours.
class Moe {
 public:
  Moe(MoeConfig config, Linear router, std::vector<Mlp> experts);
  at::Tensor forward(const at::Tensor& x) const;  // [tokens, hidden] -> the same
  void prepare() const;
  std::vector<Mlp>& experts() { return experts_; }

 private:
  MoeConfig config_;
  Linear router_;  // [experts, hidden]
  std::vector<Mlp> experts_;
};

}  // namespace quaver::nn
