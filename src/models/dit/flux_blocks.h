// The two kinds of blocks of FLUX and its relatives: text and picture with weights of their own, or as one.
#pragma once

#include <memory>
#include <string>

#include "models/dit/dit.h"

namespace quaver::models {

// How the feed-forward parts are made.
enum class FluxMlp {
  kGelu,    // tanh GELU
  kSwiglu,  // one projection gives value and gate, in this order: value * silu(gate)
};

struct FluxBlockConfig {
  int64_t width = 0, head_dim = 0;
  FluxMlp mlp = FluxMlp::kGelu;
  int64_t mlp_width = 0;  // inside the feed-forward part
};

// DitInfo::values_per_token. A double block holds most, in its feed-forward part: the state, q, k and v
// (which live as long as the block runs), what attention gave, the residual and its norm, each as wide as the
// state; and the activation's operand with as much again for its result, gated or not.
int64_t flux_values_per_token(const FluxBlockConfig& config);

// "transformer_blocks.N" and "single_transformer_blocks.N".
std::unique_ptr<DitBlock> make_flux_double_block(const FluxBlockConfig& config, const std::string& prefix,
                                                 nn::WeightSource& source);
std::unique_ptr<DitBlock> make_flux_single_block(const FluxBlockConfig& config, const std::string& prefix,
                                                 nn::WeightSource& source);

}  // namespace quaver::models
