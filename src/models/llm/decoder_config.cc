#include "models/llm/decoder_config.h"

#include <cmath>

namespace quaver::models {

namespace {

constexpr int64_t kMaxLayers = 4096, kMaxHeads = 65536;

nn::Activation read_activation(const ConfigReader& config, const DecoderDefaults& defaults) {
  std::string name = config.text(defaults.activation_key, defaults.activation);
  if (name == "silu" || name == "swish") return nn::Activation::kSilu;
  if (name == "gelu") return nn::Activation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return nn::Activation::kGeluTanh;
  config.unsupported(defaults.activation_key, "is '", name, "'; known are silu, gelu and gelu_pytorch_tanh");
}

void read_heads(const ConfigReader& config, const DecoderDefaults& defaults, CausalLmInfo& info) {
  info.num_heads = config.count("num_attention_heads", kMaxHeads);
  info.num_kv_heads = config.count_or("num_key_value_heads", info.num_heads, kMaxHeads);
  if (info.num_heads % info.num_kv_heads != 0)
    config.bad("num_key_value_heads", "is ", info.num_kv_heads,
               ", which does not divide num_attention_heads ", info.num_heads);
  if (config.has("head_dim") || defaults.head_dim > 0) {
    info.head_dim = config.count_or("head_dim", defaults.head_dim, kMaxHeads);
  } else {
    if (info.hidden_size % info.num_heads != 0)
      config.bad("hidden_size", "is ", info.hidden_size, ", which num_attention_heads ", info.num_heads,
                 " does not divide, and there is no head_dim");
    info.head_dim = info.hidden_size / info.num_heads;
  }
  if (info.head_dim % 2 != 0) config.bad("head_dim", "is ", info.head_dim, "; it must be even to be rotated");
}

}  // namespace

ConfigReader config_of(const Checkpoint& checkpoint) {
  return ConfigReader(checkpoint.config(), cat(checkpoint.path().string(), ": config.json"));
}

DecoderConfig read_common(const ConfigReader& config, const DecoderDefaults& defaults) {
  DecoderConfig decoder;
  CausalLmInfo& info = decoder.info;
  info.hidden_size = config.count("hidden_size");
  info.num_layers = config.count("num_hidden_layers", kMaxLayers);
  info.vocab_size = config.count("vocab_size");
  info.max_position_embeddings = config.count("max_position_embeddings");
  info.tied_embeddings = config.flag("tie_word_embeddings", defaults.tied);
  read_heads(config, defaults, info);
  decoder.draft_layers = config.whole_or("num_nextn_predict_layers", 0);
  if (decoder.draft_layers > kMaxLayers)
    config.bad("num_nextn_predict_layers", "is ", decoder.draft_layers, ", expected at most ", kMaxLayers);
  decoder.intermediate_size = config.count("intermediate_size");
  decoder.norm_eps = config.positive("rms_norm_eps");
  decoder.activation = read_activation(config, defaults);
  decoder.attention_scale = 1 / std::sqrt(static_cast<double>(info.head_dim));
  decoder.windows.assign(static_cast<size_t>(info.num_layers), 0);
  decoder.sparse.assign(static_cast<size_t>(info.num_layers), false);
  return decoder;
}

void read_layer_types(const ConfigReader& config, int64_t window, DecoderConfig& decoder) {
  std::vector<std::string> types = config.texts("layer_types");
  if (types.empty()) return;
  if (types.size() != decoder.windows.size())
    config.bad("layer_types", "names ", types.size(), " layers, num_hidden_layers is ",
               decoder.windows.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention")
      config.unsupported("layer_types", "names '", types[i],
                         "'; known are full_attention and sliding_attention");
    decoder.windows[i] = types[i] == "sliding_attention" ? window : 0;
  }
}

}  // namespace quaver::models
