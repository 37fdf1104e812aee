#include "models/llm/rope_config.h"

#include <cmath>

namespace quaver::models {

namespace {

using Kind = nn::RopeScaling::Kind;

double attention_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// The cos and sin multiplier of YaRN (arXiv 2309.00071), with the two-sided form where both mscales are
// given.
double yarn_attention_factor(const ConfigReader& config, double factor) {
  if (config.has("attention_factor")) return config.positive("attention_factor");
  if (config.has("mscale") && config.has("mscale_all_dim"))
    return attention_scale(factor, config.positive("mscale")) /
           attention_scale(factor, config.positive("mscale_all_dim"));
  return attention_scale(factor, 1);
}

void read_yarn(const ConfigReader& config, const RopeDefaults& defaults, nn::RopeScaling& scaling) {
  scaling.kind = Kind::kYarn;
  scaling.factor = config.positive_or(
      "factor", static_cast<double>(defaults.max_positions) / scaling.original_max_positions);
  scaling.beta_fast = config.positive_or("beta_fast", 32);
  scaling.beta_slow = config.positive_or("beta_slow", 1);
  scaling.truncate = config.flag("truncate", true);
  scaling.attention_factor = yarn_attention_factor(config, scaling.factor);
}

void read_llama3(const ConfigReader& config, nn::RopeScaling& scaling) {
  scaling.kind = Kind::kLlama3;
  scaling.factor = config.positive("factor");
  scaling.low_freq_factor = config.positive("low_freq_factor");
  scaling.high_freq_factor = config.positive("high_freq_factor");
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    config.bad("high_freq_factor", "must be above low_freq_factor");
}

nn::RopeScaling read_scaling(const ConfigReader& config, const RopeDefaults& defaults) {
  nn::RopeScaling scaling;
  std::string type = config.text("rope_type", config.text("type", "default").c_str());
  scaling.original_max_positions =
      config.positive_or("original_max_position_embeddings", static_cast<double>(defaults.max_positions));
  if (type == "default") return scaling;
  if (type == "linear") {
    scaling.kind = Kind::kLinear;
    scaling.factor = config.positive("factor");
  } else if (type == "llama3") {
    read_llama3(config, scaling);
  } else if (type == "yarn") {
    read_yarn(config, defaults, scaling);
  } else {
    config.unsupported("rope_type", "is '", type, "'; known are default, linear, llama3 and yarn");
  }
  return scaling;
}

// One object that holds type, factors and, in the merged spelling, theta.
nn::RopeSpec read_spec(const ConfigReader& object, const RopeDefaults& defaults) {
  nn::RopeSpec spec;
  spec.theta = object.positive_or("rope_theta", defaults.theta);
  double share = object.positive_or("partial_rotary_factor", 1);
  spec.dim = static_cast<int64_t>(static_cast<double>(defaults.head_dim) * share);
  if (share > 1 || spec.dim < 2 || spec.dim % 2 != 0)
    object.bad("partial_rotary_factor", "turns ", spec.dim, " of ", defaults.head_dim,
               " dimensions, which must be an even part of them");
  spec.scaling = read_scaling(object, defaults);
  return spec;
}

RopeDefaults with_theta(const ConfigReader& config, RopeDefaults defaults, const char* key) {
  defaults.theta = config.positive_or(key, defaults.theta);
  return defaults;
}

}  // namespace

nn::RopeSpec read_rope(const ConfigReader& config, const RopeDefaults& given) {
  RopeDefaults defaults = with_theta(config, given, "rope_theta");
  if (auto merged = config.nested("rope_parameters")) return read_spec(*merged, defaults);
  if (auto scaling = config.nested("rope_scaling")) return read_spec(*scaling, defaults);
  static const json kNone = json::object();
  return read_spec(ConfigReader(kNone, config.what()), defaults);
}

double read_rope_score_factor(const ConfigReader& config, const nn::RopeSpec& rope) {
  auto object = config.nested(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  if (!object || rope.scaling.kind == Kind::kNone || !object->has("mscale_all_dim")) return 1;
  const double factor = attention_scale(rope.scaling.factor, object->positive("mscale_all_dim"));
  return factor * factor;
}

LayeredRope read_layered_rope(const ConfigReader& config, const RopeDefaults& given, double local_theta) {
  static const json kNone = json::object();
  RopeDefaults full = with_theta(config, given, "rope_theta");
  RopeDefaults local = given;
  local.theta = local_theta;
  local = with_theta(config, local, "rope_local_base_freq");
  auto merged = config.nested("rope_parameters");
  ConfigReader none(kNone, config.what());
  if (!merged) {  // the older spelling scales only the layers that see everything
    auto scaling = config.nested("rope_scaling");
    return {read_spec(scaling ? *scaling : none, full), read_spec(none, local)};
  }
  auto full_object = merged->nested("full_attention"), local_object = merged->nested("sliding_attention");
  return {read_spec(full_object ? *full_object : none, full),
          read_spec(local_object ? *local_object : none, local)};
}

}  // namespace quaver::models
