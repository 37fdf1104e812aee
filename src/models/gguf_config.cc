#include "models/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "checkpoint/gguf_dequantize.h"
#include "models/gguf_architectures.h"
#include "models/gguf_special_tokens.h"

namespace quaver::models {

namespace {

// Metadata of one architecture: keys without its prefix.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}
  int64_t integer(const char* key) const { return file_.integer(full(key)); }
  std::optional<int64_t> find_integer(const char* key) const { return file_.find_integer(full(key)); }
  std::optional<std::string_view> find_string(const char* key) const { return file_.find_string(full(key)); }
  std::optional<double> find_number(const char* key) const {
    std::optional<double> value = file_.find_number(full(key));
    return value ? std::optional(shortest(*value)) : std::nullopt;
  }
  double number(const char* key) const { return shortest(file_.number(full(key))); }
  std::string full(const char* key) const { return cat(prefix_, ".", key); }

 private:
  // Metadata holds float32; the shortest decimal that reads back as the same float32 is what was meant
  // (1e-05).
  static double shortest(double value) {
    char text[64];
    auto end = std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr;
    double result = value;
    std::from_chars(text, end, result);
    return result;
  }
  const GgufFile& file_;
  std::string prefix_;
};

int64_t vocabulary_size(const GgufFile& file) {
  const GgufEntry* table = file.find_tensor("token_embd.weight");
  require(table && table->info.shape.size() == 2, ErrorKind::kBadFile, file.path().string(),
          ": tensor 'token_embd.weight' is missing or not a matrix");
  return table->info.shape[0];
}

// Scaling by parts is stored as one divisor per frequency; it is accepted where the published rule with its
// usual bounds (1, 4, 8192) gives the same divisors.
json by_parts_scaling(const GgufFile& file, double theta) {
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192, kTolerance = 1e-3;
  std::vector<float> divisors = gguf_dequantize(file.read(kGgufRopeFactors));
  double factor = divisors.empty() ? 1 : *std::ranges::max_element(divisors);
  auto count = static_cast<double>(divisors.size());
  for (size_t j = 0; j < divisors.size(); ++j) {
    double wavelength = 2 * M_PI * std::pow(theta, static_cast<double>(j) / count);
    double blend = std::clamp((kOriginal / wavelength - kLow) / (kHigh - kLow), 0.0, 1.0);
    double expected = 1 / ((1 - blend) / factor + blend);
    require(std::abs(divisors[j] - expected) <= kTolerance * expected, ErrorKind::kUnsupported,
            file.path().string(), ": tensor '", kGgufRopeFactors, "' divides frequency ", j, " by ",
            divisors[j], ", expected ", expected, " for a factor of ", factor);
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", static_cast<int64_t>(kOriginal)}};
}

json rope_scaling(const GgufFile& file, const Keys& keys, double theta) {
  if (file.find_tensor(kGgufRopeFactors)) return by_parts_scaling(file, theta);
  std::string type(keys.find_string("rope.scaling.type").value_or("none"));
  std::optional<double> factor = keys.find_number("rope.scaling.factor");
  if (type == "none" || !factor || *factor == 1) return nullptr;
  json scaling = {{"rope_type", type}, {"factor", *factor}};
  if (auto original = keys.find_integer("rope.scaling.original_context_length"))
    scaling["original_max_position_embeddings"] = *original;
  return scaling;
}

void add_expert_keys(const Keys& keys, json& config) {
  config["num_experts"] = keys.integer("expert_count");
  config["num_experts_per_tok"] = keys.integer("expert_used_count");
  config["moe_intermediate_size"] = keys.integer("expert_feed_forward_length");
  config["norm_topk_prob"] = true;  // not stored: all models of this architecture do
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = json::array();
}

// Neither the score scale nor the pattern is stored: every sixth layer sees everything, and only the largest
// model (62 layers) scales by hidden / heads instead of the head size.
void add_windows(const Keys& keys, json& config) {
  constexpr int64_t kLargestLayers = 62, kPattern = 6;
  bool largest = config["num_hidden_layers"] == kLargestLayers;
  config["query_pre_attn_scalar"] =
      largest ? config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>()
              : config["head_dim"].get<int64_t>();
  config["sliding_window"] = keys.integer("attention.sliding_window");
  config["sliding_window_pattern"] = kPattern;
  config["rope_local_base_freq"] = 10000.0;
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (auto softcap = keys.find_number("final_logit_softcapping"))
    config["final_logit_softcapping"] = *softcap;
}

int64_t head_size(const GgufFile& file, const Keys& keys, const json& config) {
  int64_t heads = config["num_attention_heads"].get<int64_t>();
  require(heads > 0, ErrorKind::kBadFile, file.path().string(), ": ", keys.full("attention.head_count"),
          " must be above zero");
  int64_t size =
      keys.find_integer("attention.key_length").value_or(config["hidden_size"].get<int64_t>() / heads);
  int64_t rotated = keys.find_integer("rope.dimension_count").value_or(size);
  require(rotated == size, ErrorKind::kUnsupported, file.path().string(), ": ",
          keys.full("rope.dimension_count"), " is ", rotated, ", heads have ", size,
          " dimensions; turning a part of them is not supported here");
  return size;
}

}  // namespace

json gguf_config_json(const GgufFile& file) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  Keys keys(file, architecture.name);
  double theta = keys.find_number("rope.freq_base").value_or(architecture.four_norms ? 1e6 : 1e4);
  json config = {{"architectures", {architecture.architecture}},
                 {"model_type", architecture.model_type},
                 {"vocab_size", vocabulary_size(file)},
                 {"hidden_size", keys.integer("embedding_length")},
                 {"num_hidden_layers", keys.integer("block_count")},
                 {"num_attention_heads", keys.integer("attention.head_count")},
                 {"max_position_embeddings", keys.integer("context_length")},
                 {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")},
                 {"rope_theta", theta},
                 {"rope_scaling", rope_scaling(file, keys, theta)},
                 {"tie_word_embeddings", file.find_tensor("output.weight") == nullptr},
                 {"attention_bias", file.find_tensor("blk.0.attn_q.bias") != nullptr},
                 {"dtype", "bfloat16"},
                 {"torch_dtype", "bfloat16"}};
  config["num_key_value_heads"] =
      keys.find_integer("attention.head_count_kv").value_or(config["num_attention_heads"].get<int64_t>());
  config["head_dim"] = head_size(file, keys, config);
  // A model of experts alone stores no size of a dense layer.
  config["intermediate_size"] =
      keys.find_integer("feed_forward_length")
          .value_or(architecture.experts ? keys.integer("expert_feed_forward_length") : 0);
  if (architecture.experts) add_expert_keys(keys, config);
  if (architecture.four_norms) add_windows(keys, config);
  if (!architecture.four_norms) config["hidden_act"] = "silu";
  GgufSpecialTokens special = gguf_special_tokens(file);
  if (special.bos) config["bos_token_id"] = *special.bos;
  if (!special.eos.empty())
    config["eos_token_id"] = special.eos.size() == 1 ? json(special.eos[0]) : json(special.eos);
  if (special.pad) config["pad_token_id"] = *special.pad;
  return config;
}

json gguf_generation_config_json(const GgufFile& file) {
  GgufSpecialTokens special = gguf_special_tokens(file);
  json config = json::object();
  if (special.bos) config["bos_token_id"] = *special.bos;
  if (!special.eos.empty())
    config["eos_token_id"] = special.eos.size() == 1 ? json(special.eos[0]) : json(special.eos);
  if (special.pad) config["pad_token_id"] = *special.pad;
  return config;
}

json gguf_tokenizer_config_json(const GgufFile& file) {
  GgufSpecialTokens special = gguf_special_tokens(file);
  json config = json::object();
  auto add = [&](const char* key, std::optional<int64_t> id) {
    if (id) config[key] = gguf_token_text(file, *id);
  };
  add("bos_token", special.bos);
  add("eos_token", special.eos.empty() ? std::nullopt : std::optional(special.eos[0]));
  add("unk_token", special.unk);
  add("pad_token", special.pad);
  if (auto flag = file.find_boolean("tokenizer.ggml.add_bos_token")) config["add_bos_token"] = *flag;
  if (auto flag = file.find_boolean("tokenizer.ggml.add_eos_token")) config["add_eos_token"] = *flag;
  if (auto text = file.find_string("tokenizer.chat_template"))
    config["chat_template"] = gguf_checked_text(file, "tokenizer.chat_template", *text);
  return config;
}

}  // namespace quaver::models
