// The decoder that all families share: embedding, blocks, final norm, head.
#pragma once

#include <memory>

#include "models/llm/causal_lm.h"
#include "models/llm/decoder_config.h"

namespace quaver::models {

// Takes embedding, final norm and head from the source. Without a head in the file the embedding is used when
// the config ties them (or the options force it); a tied head that is stored once more is dropped when its
// bytes agree.
std::unique_ptr<CausalLm> make_decoder(DecoderConfig config, nn::WeightSource& source);

// What it was made of, with the file's decisions in it; null for a model that make_decoder did not make.
const DecoderConfig* decoder_config_of(const CausalLm& model);

}  // namespace quaver::models
