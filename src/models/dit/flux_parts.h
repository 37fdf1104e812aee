// Which parts of a block's layers one of the tensor ranks has.
#pragma once

#include "models/dit/flux_blocks.h"
#include "nn/linear_shard.h"

namespace quaver::models {

// Whole heads of the attention, and channels inside the feed-forward part. Modulation, a quarter of all
// weights, is divided too: its output is one row for a picture, little to gather.
class FluxParts {
 public:
  FluxParts(const FluxBlockConfig& config, const nn::WeightSource& source)
      : config_(config),
        ranks_(source.options().tensor_ranks),
        heads_(nn::share_of(ranks_, config.width, config.head_dim)),
        inner_(nn::share_of_channels(ranks_, config.mlp_width)) {}

  nn::LinearShard heads() const { return nn::shard_of_rows(ranks_, config_.width, {heads_}); }
  nn::LinearShard out() const { return nn::shard_of_columns(ranks_, config_.width, {heads_}); }
  nn::LinearShard up() const {  // two things side by side where there is a gate
    if (config_.mlp == FluxMlp::kGelu) return nn::shard_of_rows(ranks_, config_.mlp_width, {inner_});
    return nn::shard_of_rows(ranks_, 2 * config_.mlp_width, {inner_, behind(config_.mlp_width)});
  }
  nn::LinearShard down() const { return nn::shard_of_columns(ranks_, config_.mlp_width, {inner_}); }
  nn::LinearShard out_and_down() const {
    return nn::shard_of_columns(ranks_, config_.width + config_.mlp_width, {heads_, behind(config_.width)});
  }
  nn::LinearShard modulation(int64_t count) const {
    return nn::shard_of_gathered_rows(ranks_, count * config_.width);
  }

 private:
  IndexRun behind(int64_t channels) const { return {channels + inner_.first, inner_.count}; }

  FluxBlockConfig config_;
  const nn::RankGroup* ranks_;
  IndexRun heads_, inner_;
};

}  // namespace quaver::models
