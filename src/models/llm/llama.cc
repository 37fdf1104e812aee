// Llama: Llama 2 and 3.x, SmolLM2 and others that use its layout unchanged.
#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/rope_config.h"

namespace quaver::models {

std::unique_ptr<CausalLm> make_llama(nn::WeightSource& source) {
  ConfigReader config = config_of(source.checkpoint());
  DecoderConfig decoder = read_common(config, {});
  decoder.info.family = "llama";
  decoder.qkv_bias = decoder.output_bias = config.flag("attention_bias", false);
  decoder.mlp_bias = config.flag("mlp_bias", false);
  decoder.rope = decoder.window_rope = read_rope(
      config, {.head_dim = decoder.info.head_dim, .max_positions = decoder.info.max_position_embeddings});
  return make_decoder(std::move(decoder), source);
}

}  // namespace quaver::models
