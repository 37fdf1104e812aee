// One decoder layer: attention and a feed-forward layer (or experts), each with its norms.
#pragma once

#include <memory>

#include "models/llm/causal_lm.h"
#include "models/llm/decoder_config.h"

namespace quaver::models {

struct BlockRope {
  std::shared_ptr<const nn::RopeTable> full, window;
};

// Takes the weights of layer `index` from the source.
std::unique_ptr<DecoderBlock> make_decoder_block(const DecoderConfig& config, const BlockRope& rope,
                                                 int64_t index, nn::WeightSource& source);

}  // namespace quaver::models
