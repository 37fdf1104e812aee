// Qwen2 and Qwen2.5: biases on q, k and v.
#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/qwen_config.h"

namespace quaver::models {

std::unique_ptr<CausalLm> make_qwen2(nn::WeightSource& source) {
  ConfigReader config = config_of(source.checkpoint());
  DecoderConfig decoder = read_qwen(config, {});
  decoder.info.family = "qwen2";
  decoder.qkv_bias = true;
  read_qwen_windows(config, decoder);
  return make_decoder(std::move(decoder), source);
}

}  // namespace quaver::models
