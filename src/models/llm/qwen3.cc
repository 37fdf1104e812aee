// Qwen3: norms on q and k per head, no biases unless the config asks for them.
#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/qwen_config.h"

namespace quaver::models {

DecoderConfig read_qwen3(const ConfigReader& config) {
  DecoderConfig decoder = read_qwen(config, {.head_dim = 128});
  decoder.info.family = "qwen3";
  decoder.qk_norm = true;
  decoder.qkv_bias = decoder.output_bias = config.flag("attention_bias", false);
  read_qwen_windows(config, decoder);
  return decoder;
}

std::unique_ptr<CausalLm> make_qwen3(nn::WeightSource& source) {
  return make_decoder(read_qwen3(config_of(source.checkpoint())), source);
}

}  // namespace quaver::models
