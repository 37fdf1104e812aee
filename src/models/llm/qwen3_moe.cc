// Qwen3-MoE: Qwen3 attention over a mixture of experts in all or some layers.
#include <algorithm>

#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/qwen_config.h"

namespace quaver::models {

namespace {

constexpr int64_t kMaxExperts = 65536;

void read_experts(const ConfigReader& config, DecoderConfig& decoder) {
  const char* count_key = config.has("num_experts") ? "num_experts" : "num_local_experts";
  if (!config.has(count_key)) config.bad("num_experts", "is missing");
  decoder.moe.num_experts = config.count(count_key, kMaxExperts);
  decoder.moe.experts_per_token = config.count("num_experts_per_tok", kMaxExperts);
  if (decoder.moe.experts_per_token > decoder.moe.num_experts)
    config.bad("num_experts_per_tok", "is ", decoder.moe.experts_per_token, ", more than the ",
               decoder.moe.num_experts, " experts");
  decoder.moe.normalize = config.flag("norm_topk_prob", false);
  decoder.moe_intermediate_size = config.count("moe_intermediate_size");
}

void read_sparse_layers(const ConfigReader& config, DecoderConfig& decoder) {
  int64_t step = config.count_or("decoder_sparse_step", 1);
  std::vector<int64_t> dense = config.numbers("mlp_only_layers");
  for (size_t i = 0; i < decoder.sparse.size(); ++i) {
    auto layer = static_cast<int64_t>(i);
    decoder.sparse[i] = (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
  }
}

}  // namespace

std::unique_ptr<CausalLm> make_qwen3_moe(nn::WeightSource& source) {
  ConfigReader config = config_of(source.checkpoint());
  DecoderConfig decoder = read_qwen(config, {});
  decoder.info.family = "qwen3_moe";
  decoder.qk_norm = true;
  decoder.qkv_bias = decoder.output_bias = config.flag("attention_bias", false);
  std::ranges::fill(decoder.windows, read_qwen_window(config));
  read_experts(config, decoder);
  read_sparse_layers(config, decoder);
  return make_decoder(std::move(decoder), source);
}

}  // namespace quaver::models
