#include "models/gguf_write_keys.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/gguf_keys.h"

namespace quaver::models {
namespace {

using Scaling = nn::RopeScaling;

// Writes under the architecture's prefix, and refuses what has no key.
class KeyWriter {
 public:
  KeyWriter(const GgufArchitecture& architecture, std::string_view what, GgufMetadata& metadata)
      : architecture_(architecture), what_(what), metadata_(metadata) {}

  void integer(const char* key, int64_t value) { metadata_.add_u32(full(key), static_cast<uint32_t>(value)); }
  void number(const char* key, double value) { metadata_.add_f32(full(key), static_cast<float>(value)); }
  void text(const char* key, const char* value) { metadata_.add_string(full(key), value); }

  template <class... Args>
  void demand(bool holds, const Args&... message) const {
    require(holds, ErrorKind::kUnsupported, what_, ": can't be told in a GGUF of architecture '",
            architecture_.name, "': ", message...);
  }

 private:
  std::string full(const char* key) const { return cat(architecture_.name, ".", key); }
  const GgufArchitecture& architecture_;
  std::string_view what_;
  GgufMetadata& metadata_;
};

bool about(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

void write_rope(KeyWriter& keys, const nn::RopeSpec& rope, int64_t head_dim) {
  keys.demand(rope.dim == head_dim, "rotations turn ", rope.dim, " of ", head_dim, " dimensions");
  keys.integer(gguf_keys::kRopeWidth, rope.dim);
  keys.number(gguf_keys::kRopeBase, rope.theta);
  const Scaling& scaling = rope.scaling;
  if (scaling.kind == Scaling::Kind::kLinear) keys.text(gguf_keys::kRopeType, "linear");
  if (scaling.kind == Scaling::Kind::kYarn) {
    keys.demand(scaling.beta_fast == 32 && scaling.beta_slow == 1 && scaling.truncate, "yarn bounds ",
                scaling.beta_fast, " and ", scaling.beta_slow, ", expected 32 and 1, truncated");
    keys.demand(about(scaling.attention_factor, 0.1 * std::log(scaling.factor) + 1), "the attention factor ",
                scaling.attention_factor, " of yarn");
    keys.text(gguf_keys::kRopeType, "yarn");
    keys.integer(gguf_keys::kRopeOriginal, static_cast<int64_t>(scaling.original_max_positions));
  }
  if (scaling.kind == Scaling::Kind::kLinear || scaling.kind == Scaling::Kind::kYarn)
    keys.number(gguf_keys::kRopeFactor, scaling.factor);
  if (scaling.kind == Scaling::Kind::kLlama3)
    keys.demand(scaling.low_freq_factor == kGgufPartsLow && scaling.high_freq_factor == kGgufPartsHigh &&
                    scaling.original_max_positions == kGgufPartsOriginal,
                "scaling by parts with bounds ", scaling.low_freq_factor, ", ", scaling.high_freq_factor,
                ", ", scaling.original_max_positions, "; expected 1, 4, 8192");
}

void write_windows(KeyWriter& keys, const DecoderConfig& config) {
  int64_t window = 0;
  for (size_t i = 0; i < config.windows.size(); ++i) {
    const bool sees_everything = (static_cast<int64_t>(i) + 1) % kGgufWindowPattern == 0;
    keys.demand(sees_everything == (config.windows[i] == 0), "layer ", i,
                sees_everything ? " has a window" : " has no window",
                "; every sixth layer has none, others have");
    window = std::max(window, config.windows[i]);
  }
  keys.demand(
      config.window_rope.theta == kGgufLocalTheta && config.window_rope.scaling.kind == Scaling::Kind::kNone,
      "layers with windows turn by ", config.window_rope.theta, ", expected ", kGgufLocalTheta, " unscaled");
  const CausalLmInfo& info = config.info;
  const int64_t expected =
      info.num_layers == kGgufLargestLayers ? info.hidden_size / info.num_heads : info.head_dim;
  keys.demand(about(config.attention_scale, 1 / std::sqrt(static_cast<double>(expected))),
              "scores scaled by ", config.attention_scale, ", expected 1 / sqrt(", expected, ")");
  keys.integer(gguf_keys::kWindow, window);
  if (config.final_softcap > 0) keys.number(gguf_keys::kFinalSoftcap, config.final_softcap);
}

void write_experts(KeyWriter& keys, const DecoderConfig& config) {
  keys.demand(std::ranges::all_of(config.sparse, [](bool sparse) { return sparse; }),
              "layers without experts between those with");
  keys.demand(config.moe.normalize, "weights of experts that don't sum to one (norm_topk_prob)");
  keys.integer(gguf_keys::kExperts, config.moe.num_experts);
  keys.integer(gguf_keys::kExpertsUsed, config.moe.experts_per_token);
  keys.integer(gguf_keys::kExpertWidth, config.moe_intermediate_size);
}

}  // namespace

std::vector<float> gguf_rope_divisors(double theta, double factor, size_t count) {
  std::vector<float> divisors;
  for (size_t j = 0; j < count; ++j) {
    const double share = static_cast<double>(j) / static_cast<double>(count);
    const double wavelength = 2 * M_PI * std::pow(theta, share);
    const double blend = std::clamp(
        (kGgufPartsOriginal / wavelength - kGgufPartsLow) / (kGgufPartsHigh - kGgufPartsLow), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - blend) / factor + blend)));
  }
  return divisors;
}

std::vector<float> gguf_rope_factors(const DecoderConfig& config) {
  const nn::RopeSpec& rope = config.rope;
  if (rope.scaling.kind != Scaling::Kind::kLlama3) return {};
  return gguf_rope_divisors(rope.theta, rope.scaling.factor, static_cast<size_t>(rope.dim / 2));
}

void add_gguf_config(const GgufArchitecture& architecture, const DecoderConfig& config, std::string_view what,
                     GgufMetadata& metadata) {
  metadata.add_string("general.architecture", architecture.name);
  KeyWriter keys(architecture, what, metadata);
  const CausalLmInfo& info = config.info;
  keys.integer(gguf_keys::kContext, info.max_position_embeddings);
  keys.integer(gguf_keys::kHidden, info.hidden_size);
  keys.integer(gguf_keys::kBlocks, info.num_layers);
  keys.integer(gguf_keys::kWidth, config.intermediate_size);
  keys.integer(gguf_keys::kHeads, info.num_heads);
  keys.integer(gguf_keys::kKeyHeads, info.num_kv_heads);
  keys.integer(gguf_keys::kKeyWidth, info.head_dim);
  keys.integer(gguf_keys::kValueWidth, info.head_dim);
  keys.integer(gguf_keys::kVocabulary, info.vocab_size);
  keys.number(gguf_keys::kNormEpsilon, config.norm_eps);
  const nn::Activation activation =
      architecture.four_norms ? nn::Activation::kGeluTanh : nn::Activation::kSilu;
  keys.demand(config.activation.function == activation, "another activation than ",
              architecture.four_norms ? "gelu_pytorch_tanh" : "silu");
  keys.demand(config.attention_softcap == 0, "capped scores (attn_logit_softcapping)");
  write_rope(keys, config.rope, info.head_dim);
  if (architecture.experts) write_experts(keys, config);
  if (architecture.four_norms) return write_windows(keys, config);
  keys.demand(std::ranges::all_of(config.windows, [](int64_t window) { return window == 0; }),
              "layers with windows (sliding_window)");
}

}  // namespace quaver::models
