// The switches by which one decoder becomes each family, and the keys that all families share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/llm/causal_lm.h"
#include "models/llm/config_reader.h"
#include "nn/activation.h"
#include "nn/moe.h"
#include "nn/norm.h"
#include "nn/rope.h"

namespace quaver::models {

// Attention through one narrow vector per token; heads have a part that is not rotated, then one that is.
struct LatentConfig {
  int64_t q_rank = 0;  // 0: queries are made in one step
  int64_t kv_rank = 0;
  int64_t plain_dim = 0, rope_dim = 0, value_dim = 0;  // per head
  bool interleaved = true;                             // rotated pairs lie side by side
  bool wide_rotation = false;                          // in float32 whatever the activations are in
};

struct DecoderConfig {
  CausalLmInfo info;
  int64_t intermediate_size = 0;
  double norm_eps = 1e-6;
  nn::NormFlavour norm = nn::NormFlavour::kCastThenScale;
  nn::Gating activation = nn::Activation::kSilu;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;  // must be in the file
  bool qk_norm = false;                                          // per head, before the rotation
  bool sandwich_norms = false;                                   // norms after attention and feed-forward too
  double attention_scale = 0;
  double attention_softcap = 0, final_softcap = 0;  // 0 = none
  bool attention_sinks = false;                     // a learned score per head that joins the softmax
  double embedding_scale = 1;
  std::vector<int64_t> windows;  // per layer; 0 sees everything
  nn::RopeSpec rope;             // of layers that see everything
  nn::RopeSpec window_rope;      // of layers with a window
  std::vector<bool> sparse;      // per layer: mixture of experts instead of one feed-forward
  nn::MoeConfig moe;
  int64_t moe_intermediate_size = 0;
  std::string router = "gate";           // its name
  bool router_bias = false;              // must be in the file
  int64_t shared_intermediate_size = 0;  // of the expert that every token uses; 0 = none
  bool choice_bias = false;              // a bias for the choice of experts, per layer
  std::optional<LatentConfig> latent;    // instead of plain attention
  int64_t draft_layers = 0;              // behind the last one, for guessing ahead; not used
  std::string prefix = "model";          // of embed_tokens, layers and norm
  std::string head = "lm_head";
};

// What differs among families while the common keys are read.
struct DecoderDefaults {
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool tied = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
};

// Sizes, head counts, eps, activation and tying. Windows are all 0, no layer is sparse, rope is not read yet.
DecoderConfig read_common(const ConfigReader& config, const DecoderDefaults& defaults);

// "layer_types" where given: windows of `window` for the layers that slide.
void read_layer_types(const ConfigReader& config, int64_t window, DecoderConfig& decoder);

// The config of a checkpoint, named for messages.
ConfigReader config_of(const Checkpoint& checkpoint);

}  // namespace quaver::models
