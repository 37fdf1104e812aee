// Gemma 3: four norms per layer that multiply by 1 + w, scaled embeddings, windowed layers with a rope of
// their own.
#include <cmath>

#include "base/log.h"
#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/rope_config.h"

namespace quaver::models {

namespace {

// Published text configs leave out keys that keep these values.
json with_defaults(json config) {
  static const json kDefaults = {{"vocab_size", 262208},         {"num_attention_heads", 8},
                                 {"num_key_value_heads", 4},     {"head_dim", 256},
                                 {"rms_norm_eps", 1e-6},         {"max_position_embeddings", 131072},
                                 {"query_pre_attn_scalar", 256}, {"sliding_window", 4096}};
  for (const auto& [key, value] : kDefaults.items())
    if (!config.contains(key)) config[key] = value;
  return config;
}

void read_windows(const ConfigReader& config, DecoderConfig& decoder) {
  int64_t window = config.count_or("sliding_window", 0);
  if (config.has("layer_types")) return read_layer_types(config, window, decoder);
  int64_t pattern = config.count_or("sliding_window_pattern", 6);  // every so many sees everything
  for (size_t i = 0; i < decoder.windows.size(); ++i)
    if ((static_cast<int64_t>(i) + 1) % pattern != 0) decoder.windows[i] = window;
}

DecoderConfig read_gemma3(const ConfigReader& config) {
  DecoderConfig decoder = read_common(
      config, {.tied = true, .activation_key = "hidden_activation", .activation = "gelu_pytorch_tanh"});
  decoder.info.family = "gemma3";
  if (config.flag("use_bidirectional_attention", false))
    config.unsupported("use_bidirectional_attention", "is on; only causal attention is known here");
  decoder.norm = nn::NormFlavour::kOnePlusWeight;
  decoder.qk_norm = decoder.sandwich_norms = true;
  decoder.qkv_bias = decoder.output_bias = config.flag("attention_bias", false);
  decoder.attention_scale = 1 / std::sqrt(config.positive("query_pre_attn_scalar"));
  decoder.attention_softcap = config.positive_or("attn_logit_softcapping", 0);
  decoder.final_softcap = config.positive_or("final_logit_softcapping", 0);
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.info.hidden_size));
  read_windows(config, decoder);
  LayeredRope rope = read_layered_rope(config,
                                       {.head_dim = decoder.info.head_dim,
                                        .max_positions = decoder.info.max_position_embeddings,
                                        .theta = 1e6},
                                       1e4);
  decoder.rope = rope.full, decoder.window_rope = rope.sliding;
  return decoder;
}

bool is_other_tower(std::string_view name) {
  for (std::string_view part :
       {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."})
    if (name.starts_with(part)) return true;
  return false;
}

}  // namespace

std::unique_ptr<CausalLm> make_gemma3_text(nn::WeightSource& source) {
  json config = with_defaults(config_of(source.checkpoint()).object());
  return make_decoder(read_gemma3(ConfigReader(config, config_of(source.checkpoint()).what())), source);
}

// The text tower of the picture-reading model. Two layouts of names are about.
std::unique_ptr<CausalLm> make_gemma3(nn::WeightSource& source) {
  ConfigReader outer = config_of(source.checkpoint());
  auto text = outer.nested("text_config");
  if (!text) outer.bad("text_config", "is missing");
  json config = with_defaults(text->object());
  if (!config.contains("tie_word_embeddings") && outer.has("tie_word_embeddings"))
    config["tie_word_embeddings"] = outer.object().at("tie_word_embeddings");
  DecoderConfig decoder = read_gemma3(ConfigReader(config, text->what()));
  bool outside = source.has("language_model.model.embed_tokens.weight");
  decoder.prefix = outside ? "language_model.model" : "model.language_model";
  if (outside) decoder.head = "language_model.lm_head";
  log_info(source.checkpoint().path().string(), ": the text tower alone is loaded");
  source.ignore_if(is_other_tower);
  return make_decoder(std::move(decoder), source);
}

}  // namespace quaver::models
