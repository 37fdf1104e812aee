// DeepSeek-V2 and V3: latent attention, and groups of experts beside some that every token uses.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "models/llm/decoder.h"
#include "models/llm/families.h"
#include "models/llm/latent_attention.h"
#include "models/llm/rope_config.h"

namespace quaver::models {

namespace {

using Scores = nn::ScoredRouting::Scores;

constexpr int64_t kMostExperts = 65536, kMostPerHead = 65536;

// What the two families take for granted where the config is silent.
struct Habits {
  const char* family;
  const char* scores;
  const char* method;
  bool normalize;
};
constexpr Habits kV2 = {"deepseek_v2", "softmax", "greedy", false};
constexpr Habits kV3 = {"deepseek_v3", "sigmoid", "noaux_tc", true};

// "topk_method": how experts are chosen by their scores.
struct ChoiceMethod {
  std::string_view name;
  bool grouped;
  int64_t judged_by;  // experts by which a group is judged
  bool bias;
};
constexpr std::array kMethods = {ChoiceMethod{"greedy", false, 1, false},
                                 ChoiceMethod{"group_limited_greedy", true, 1, false},
                                 ChoiceMethod{"noaux_tc", true, 2, true}};

const ChoiceMethod& read_method(const ConfigReader& config, const Habits& habits) {
  const std::string name = config.text("topk_method", habits.method);
  const auto found = std::ranges::find(kMethods, name, &ChoiceMethod::name);
  if (found == kMethods.end())
    config.unsupported("topk_method", "is '", name.substr(0, 80),
                       "'; known are greedy, group_limited_greedy and noaux_tc");
  return *found;
}

Scores read_scores(const ConfigReader& config, const Habits& habits) {
  const std::string name = config.text("scoring_func", habits.scores);
  if (name != "softmax" && name != "sigmoid")
    config.unsupported("scoring_func", "is '", name.substr(0, 80), "'; known are softmax and sigmoid");
  return name == "softmax" ? Scores::kSoftmax : Scores::kSigmoid;
}

void read_groups(const ConfigReader& config, const ChoiceMethod& method, int64_t experts,
                 nn::ScoredRouting& routing) {
  if (!method.grouped) return;
  routing.groups = config.count("n_group", kMostExperts);
  routing.groups_kept = config.count("topk_group", kMostExperts);
  routing.judged_by = method.judged_by;
  if (experts % routing.groups != 0)
    config.bad("n_group", "is ", routing.groups, ", which does not divide n_routed_experts ", experts);
  if (routing.groups_kept > routing.groups)
    config.bad("topk_group", "is ", routing.groups_kept, ", more than n_group ", routing.groups);
  if (routing.groups_kept < routing.groups && experts / routing.groups < routing.judged_by)
    config.bad("n_group", "is ", routing.groups, ", which leaves ", experts / routing.groups,
               " of n_routed_experts ", experts, " for a group; '", method.name, "' judges it by ",
               routing.judged_by);
}

// Published models agree on these; their readers do not agree on what else would mean.
void refuse_disputed(const ConfigReader& config, const nn::MoeConfig& moe) {
  if (moe.normalize && moe.scored->scores == Scores::kSoftmax)
    config.unsupported("norm_topk_prob", "is true, expected false where scores are a softmax");
}

void read_experts_in_groups(const ConfigReader& config, const Habits& habits, DecoderConfig& decoder) {
  nn::MoeConfig& moe = decoder.moe;
  moe.num_experts = config.count("n_routed_experts", kMostExperts);
  moe.experts_per_token = config.count("num_experts_per_tok", kMostExperts);
  moe.normalize = config.flag("norm_topk_prob", habits.normalize);
  const ChoiceMethod& method = read_method(config, habits);
  decoder.choice_bias = method.bias;
  nn::ScoredRouting routing{.scores = read_scores(config, habits)};
  routing.weight_scale = config.positive("routed_scaling_factor");
  read_groups(config, method, moe.num_experts, routing);
  const int64_t within_reach = moe.num_experts / routing.groups * routing.groups_kept;
  if (moe.experts_per_token > within_reach)
    config.bad("num_experts_per_tok", "is ", moe.experts_per_token, ", more than the ", within_reach,
               " experts that a token may choose from");
  moe.scored = routing;
  refuse_disputed(config, moe);
  decoder.moe_intermediate_size = config.count("moe_intermediate_size");
  decoder.shared_intermediate_size = config.whole_or("n_shared_experts", 0) * decoder.moe_intermediate_size;
}

void read_layers_with_experts(const ConfigReader& config, DecoderConfig& decoder) {
  const int64_t first = config.whole_or("first_k_dense_replace", 0),
                step = config.count_or("moe_layer_freq", 1);
  for (size_t i = 0; i < decoder.sparse.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    decoder.sparse[i] = layer >= first && layer % step == 0;
  }
}

LatentConfig read_latent(const ConfigReader& config) {
  LatentConfig latent;
  latent.q_rank = config.has("q_lora_rank") ? config.count("q_lora_rank") : 0;
  latent.kv_rank = config.count("kv_lora_rank");
  latent.plain_dim = config.count("qk_nope_head_dim", kMostPerHead);
  latent.rope_dim = config.count("qk_rope_head_dim", kMostPerHead);
  latent.value_dim = config.count("v_head_dim", kMostPerHead);
  if (latent.rope_dim % 2 != 0)
    config.bad("qk_rope_head_dim", "is ", latent.rope_dim, "; it must be even to be rotated");
  latent.interleaved = config.flag("rope_interleave", true);
  return latent;
}

void read_latent_attention(const ConfigReader& config, DecoderConfig& decoder) {
  CausalLmInfo& info = decoder.info;
  if (info.num_kv_heads != info.num_heads)
    config.bad("num_key_value_heads", "is ", info.num_kv_heads, ", expected num_attention_heads ",
               info.num_heads);
  const LatentConfig latent = read_latent(config);
  info.head_dim = latent_head_width(latent);
  decoder.rope = decoder.window_rope =
      read_rope(config, {.head_dim = latent.rope_dim, .max_positions = info.max_position_embeddings});
  if (decoder.rope.dim != latent.rope_dim)
    config.unsupported("partial_rotary_factor", "turns ", decoder.rope.dim, " of qk_rope_head_dim ",
                       latent.rope_dim, "; expected all of them");
  decoder.attention_scale = read_rope_score_factor(config, decoder.rope) /
                            std::sqrt(static_cast<double>(latent.plain_dim + latent.rope_dim));
  decoder.qkv_bias = decoder.output_bias = config.flag("attention_bias", false);
  decoder.latent = latent;
}

DecoderConfig read_deepseek(const ConfigReader& config, const Habits& habits) {
  DecoderConfig decoder = read_common(config, {.head_dim = 2});  // "head_dim" decides nothing here
  decoder.info.family = habits.family;
  decoder.mlp_bias = config.flag("mlp_bias", false);
  read_latent_attention(config, decoder);
  read_experts_in_groups(config, habits, decoder);
  read_layers_with_experts(config, decoder);
  return decoder;
}

}  // namespace

std::unique_ptr<CausalLm> make_deepseek_v2(nn::WeightSource& source) {
  DecoderConfig decoder = read_deepseek(config_of(source.checkpoint()), kV2);
  decoder.latent->wide_rotation = true;
  return make_decoder(std::move(decoder), source);
}

std::unique_ptr<CausalLm> make_deepseek_v3(nn::WeightSource& source) {
  return make_decoder(read_deepseek(config_of(source.checkpoint()), kV3), source);
}

}  // namespace quaver::models
