// GPT-OSS: a learned sink per head, windows in every other layer, experts with biases and a clamped gate.
#include <algorithm>

#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/rope_config.h"

namespace quaver::models {

namespace {

constexpr int64_t kMostGptOssExperts = 65536;

// A config that says nothing of rope means this.
json with_default_rope(json config) {
  const auto is_set = [&](const char* key) { return config.contains(key) && !config.at(key).is_null(); };
  if (!is_set("rope_parameters") && !is_set("rope_scaling"))
    config["rope_scaling"] = {{"rope_type", "yarn"},
                              {"factor", 32.0},
                              {"truncate", false},
                              {"original_max_position_embeddings", 4096}};
  return config;
}

void read_alternating_windows(const ConfigReader& config, DecoderConfig& decoder) {
  const int64_t window = config.count_or("sliding_window", 128);
  for (size_t i = 0; i < decoder.windows.size(); i += 2) decoder.windows[i] = window;
  read_layer_types(config, window, decoder);
}

void read_gpt_oss_experts(const ConfigReader& config, DecoderConfig& decoder) {
  decoder.moe.num_experts = config.count("num_local_experts", kMostGptOssExperts);
  decoder.moe.experts_per_token = config.count("num_experts_per_tok", kMostGptOssExperts);
  if (decoder.moe.experts_per_token > decoder.moe.num_experts)
    config.bad("num_experts_per_tok", "is ", decoder.moe.experts_per_token, ", more than the ",
               decoder.moe.num_experts, " experts");
  decoder.moe.normalize = true;  // shares of the chosen are a softmax over their logits alone
  decoder.moe_intermediate_size = decoder.intermediate_size;
  decoder.sparse.assign(decoder.sparse.size(), true);
  decoder.router = "router";
  decoder.router_bias = decoder.mlp_bias = true;
}

nn::Gating read_gating(const ConfigReader& config) {
  return {nn::Activation::kClampedSilu, static_cast<float>(config.positive_or("swiglu_alpha", 1.702)),
          static_cast<float>(config.positive_or("swiglu_limit", 7.0))};
}

}  // namespace

std::unique_ptr<CausalLm> make_gpt_oss(nn::WeightSource& source) {
  const ConfigReader stored = config_of(source.checkpoint());
  const json filled = with_default_rope(stored.object());
  const ConfigReader config(filled, stored.what());
  DecoderConfig decoder = read_common(config, {});
  decoder.info.family = "gpt_oss";
  if (decoder.activation.function != nn::Activation::kSilu)
    config.unsupported("hidden_act", "is ", config.object().at("hidden_act").dump(),
                       "; only silu is known here");
  decoder.activation = read_gating(config);
  decoder.norm = nn::NormFlavour::kScaleThenCast;
  decoder.attention_sinks = true;
  decoder.qkv_bias = decoder.output_bias = config.flag("attention_bias", true);
  read_alternating_windows(config, decoder);
  read_gpt_oss_experts(config, decoder);
  decoder.rope = decoder.window_rope =
      read_rope(config, {.head_dim = decoder.info.head_dim,
                         .max_positions = decoder.info.max_position_embeddings,
                         .theta = 150000});
  return make_decoder(std::move(decoder), source);
}

}  // namespace quaver::models
