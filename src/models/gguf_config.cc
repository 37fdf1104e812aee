#include "models/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "checkpoint/gguf_dequantize.h"
#include "models/gguf_architectures.h"
#include "models/gguf_keys.h"
#include "models/gguf_special_tokens.h"

namespace quaver::models {

namespace {

int64_t vocabulary_size(const GgufFile& file) {
  const GgufEntry* table = file.find_tensor("token_embd.weight");
  require(table && table->info.shape.size() == 2, ErrorKind::kBadFile, file.path().string(),
          ": tensor 'token_embd.weight' is missing or not a matrix");
  return table->info.shape[0];
}

// Scaling by parts is stored as one divisor per frequency; it is accepted where the published rule with its
// usual bounds gives the same divisors.
json by_parts_scaling(const GgufFile& file, double theta) {
  constexpr double kTolerance = 1e-3;
  std::vector<float> divisors = gguf_dequantize(file.read(kGgufRopeFactors));
  double factor = divisors.empty() ? 1 : *std::ranges::max_element(divisors);
  const std::vector<float> expected = gguf_rope_divisors(theta, factor, divisors.size());
  for (size_t j = 0; j < divisors.size(); ++j)
    require(std::abs(divisors[j] - expected[j]) <= kTolerance * expected[j], ErrorKind::kUnsupported,
            file.path().string(), ": tensor '", kGgufRopeFactors, "' divides frequency ", j, " by ",
            divisors[j], ", expected ", expected[j], " for a factor of ", factor);
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kGgufPartsLow},
          {"high_freq_factor", kGgufPartsHigh},
          {"original_max_position_embeddings", static_cast<int64_t>(kGgufPartsOriginal)}};
}

json rope_scaling(const GgufFile& file, const GgufKeys& keys, double theta) {
  if (file.find_tensor(kGgufRopeFactors)) return by_parts_scaling(file, theta);
  std::string type(keys.find_string(gguf_keys::kRopeType).value_or("none"));
  std::optional<double> factor = keys.find_number(gguf_keys::kRopeFactor);
  if (type == "none" || !factor || *factor == 1) return nullptr;
  json scaling = {{"rope_type", type}, {"factor", *factor}};
  if (auto original = keys.find_integer(gguf_keys::kRopeOriginal))
    scaling["original_max_position_embeddings"] = *original;
  return scaling;
}

void add_expert_keys(const GgufKeys& keys, json& config) {
  config["num_experts"] = keys.integer(gguf_keys::kExperts);
  config["num_experts_per_tok"] = keys.integer(gguf_keys::kExpertsUsed);
  config["moe_intermediate_size"] = keys.integer(gguf_keys::kExpertWidth);
  config["norm_topk_prob"] = true;  // not stored: all models of this architecture do
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = json::array();
}

// Neither the score scale nor the pattern is stored: every sixth layer sees everything, and only the largest
// model (62 layers) scales by hidden / heads instead of the head size.
void add_windows(const GgufKeys& keys, json& config) {
  bool largest = config["num_hidden_layers"] == kGgufLargestLayers;
  config["query_pre_attn_scalar"] =
      largest ? config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>()
              : config["head_dim"].get<int64_t>();
  config["sliding_window"] = keys.integer(gguf_keys::kWindow);
  config["sliding_window_pattern"] = kGgufWindowPattern;
  config["rope_local_base_freq"] = kGgufLocalTheta;
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (auto softcap = keys.find_number(gguf_keys::kFinalSoftcap)) config["final_logit_softcapping"] = *softcap;
}

int64_t head_size(const GgufFile& file, const GgufKeys& keys, const json& config) {
  int64_t heads = config["num_attention_heads"].get<int64_t>();
  require(heads > 0, ErrorKind::kBadFile, file.path().string(), ": ", keys.full(gguf_keys::kHeads),
          " must be above zero");
  int64_t size =
      keys.find_integer(gguf_keys::kKeyWidth).value_or(config["hidden_size"].get<int64_t>() / heads);
  int64_t rotated = keys.find_integer(gguf_keys::kRopeWidth).value_or(size);
  require(rotated == size, ErrorKind::kUnsupported, file.path().string(), ": ",
          keys.full(gguf_keys::kRopeWidth), " is ", rotated, ", heads have ", size,
          " dimensions; turning a part of them is not supported here");
  return size;
}

}  // namespace

json gguf_config_json(const GgufFile& file) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  GgufKeys keys(file, architecture.name);
  double theta = keys.find_number(gguf_keys::kRopeBase).value_or(architecture.four_norms ? 1e6 : 1e4);
  json config = {{"architectures", {architecture.architecture}},
                 {"model_type", architecture.model_type},
                 {"vocab_size", vocabulary_size(file)},
                 {"hidden_size", keys.integer(gguf_keys::kHidden)},
                 {"num_hidden_layers", keys.integer(gguf_keys::kBlocks)},
                 {"num_attention_heads", keys.integer(gguf_keys::kHeads)},
                 {"max_position_embeddings", keys.integer(gguf_keys::kContext)},
                 {"rms_norm_eps", keys.number(gguf_keys::kNormEpsilon)},
                 {"rope_theta", theta},
                 {"rope_scaling", rope_scaling(file, keys, theta)},
                 {"tie_word_embeddings", file.find_tensor("output.weight") == nullptr},
                 {"attention_bias", file.find_tensor("blk.0.attn_q.bias") != nullptr},
                 {"dtype", "bfloat16"},
                 {"torch_dtype", "bfloat16"}};
  config["num_key_value_heads"] =
      keys.find_integer(gguf_keys::kKeyHeads).value_or(config["num_attention_heads"].get<int64_t>());
  config["head_dim"] = head_size(file, keys, config);
  // A model of experts alone stores no size of a dense layer.
  config["intermediate_size"] =
      keys.find_integer(gguf_keys::kWidth)
          .value_or(architecture.experts ? keys.integer(gguf_keys::kExpertWidth) : 0);
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
  if (auto flag = file.find_boolean(gguf_tokenizer_keys::kAddBos)) config["add_bos_token"] = *flag;
  if (auto flag = file.find_boolean(gguf_tokenizer_keys::kAddEos)) config["add_eos_token"] = *flag;
  if (auto text = file.find_string(gguf_tokenizer_keys::kChatTemplate))
    config["chat_template"] = gguf_checked_text(file, gguf_tokenizer_keys::kChatTemplate, *text);
  return config;
}

}  // namespace quaver::models
