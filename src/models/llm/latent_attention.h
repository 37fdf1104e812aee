// Attention whose keys and values are products of one narrow vector per token (multi-head latent attention,
// DeepSeek-AI, arXiv 2405.04434).
#pragma once

#include <memory>
#include <string>

#include "models/llm/block_attention.h"
#include "models/llm/decoder_config.h"
#include "nn/weight_source.h"

namespace quaver::models {

// Takes the weights of layer `index` under `prefix` ("model.layers.0.self_attn") from the source;
// config.latent holds a value. The context receives expanded keys and values of latent_head_width() for each
// head, so any cache serves it: one token costs as much as in plain attention of that width.
std::unique_ptr<BlockAttention> make_latent_attention(const DecoderConfig& config,
                                                      std::shared_ptr<const nn::RopeTable> rope,
                                                      int64_t index, const std::string& prefix,
                                                      nn::WeightSource& source);

// The width that keys and values are padded to with zeros: caches and kernels know one for both.
int64_t latent_head_width(const LatentConfig& latent);

}  // namespace quaver::models
