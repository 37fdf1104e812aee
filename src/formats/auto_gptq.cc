#include "formats/auto_gptq.h"

#include <algorithm>

#include "formats/packed_config.h"

namespace quaver {
namespace {

constexpr const char* kName = "auto_gptq";

const std::initializer_list<std::string_view> kMethods = {"gptq", "auto_gptq", "gptqmodel", "gptq_v2",
                                                          "gptq_marlin"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

// 1 for the first convention, which stores z - 1, and 0 for the second.
int zero_offset_of(const json& settings, const std::string& what) {
  const std::string format = json_value<std::string>(settings, "format", "", what);
  const std::string checkpoint_format = json_value<std::string>(settings, "checkpoint_format", format, what);
  require(format.empty() || format == checkpoint_format, ErrorKind::kBadFile, what,
          ": keys 'format' and "
          "'checkpoint_format' disagree: '",
          format.substr(0, 80), "' and '", checkpoint_format.substr(0, 80), "'");
  if (checkpoint_format.empty() || checkpoint_format == "gptq") return 1;
  require(checkpoint_format == "gptq_v2", ErrorKind::kUnsupported, what, ": checkpoint_format '",
          checkpoint_format.substr(0, 80), "' is not supported; 'gptq' and 'gptq_v2' are");
  return 0;
}

// Keys are expressions matched from the start; "-:" leaves the layer plain, "+:" or nothing overrides.
LayerRule make_rule(const std::string& key, const json& body, const IntScheme& defaults,
                    const std::string& what) {
  const bool skip = key.starts_with("-:");
  const std::string expression = skip || key.starts_with("+:") ? key.substr(2) : key;
  const std::string where = cat(what, ": dynamic '", key.substr(0, 200), "'");
  const json settings = body.is_null() ? json::object() : body;
  LayerRule rule{NamePattern::match_start(expression, where), parse_int_scheme(settings, defaults, where)};
  rule.scheme.plain |= skip;
  rule.scheme.rule = key;
  return rule;
}

PackedSettings read_settings(const Checkpoint& checkpoint, const QuantizationConfig& config,
                             const std::string& what) {
  refuse_keys(config.value, {"is_marlin_format", "rotation", "adapter", "super_bits"}, what);
  const std::string words = json_value<std::string>(config.value, "pack_dtype", "int32", what);
  require(words == "int32", ErrorKind::kUnsupported, what, ": pack_dtype '", words.substr(0, 80),
          "' is not supported; 'int32' is");
  PackedSettings settings;
  settings.rules.defaults = parse_int_scheme(config.value, {}, what);
  settings.convention.zero_offset = zero_offset_of(config.value, what);
  settings.convention.activation_order = json_value<bool>(config.value, "desc_act", false, what);
  for (const auto& [key, body] : ordered_members(checkpoint, config, "dynamic"))
    settings.rules.rules.push_back(make_rule(key, body, settings.rules.defaults, what));
  return settings;
}

std::shared_ptr<const PackedSettings> settings_of(const Checkpoint& checkpoint) {
  return packed_settings(checkpoint, kName, read_settings);
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  const auto settings = settings_of(checkpoint);
  return plan_packed_layer(checkpoint, layer, settings->rules.candidates(layer), settings->convention);
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  return settings_of(checkpoint)->rules.unmatched(checkpoint);
}

std::vector<NamedTensor> pack(const QuantWeight& weight, std::string_view layer, const Recipe&) {
  return pack_packed_layer(weight, layer, {.zero_offset = 1, .has_group_index = true});
}

// "a.b" -> "a\.b$": this layer and no other.
std::string exact_expression(std::string_view layer) {
  std::string expression;
  for (char c : layer) {
    if (std::string_view(".*+?^$()[]{}|\\").find(c) != std::string_view::npos) expression.push_back('\\');
    expression.push_back(c);
  }
  return expression + "$";
}

json config_json(const Recipe& recipe) {
  json config = packed_config_json(recipe, "gptq");
  config.update(packed_integer_settings(recipe));
  config.erase("dataset");
  config["provider"] = "auto-round";
  config["desc_act"] = false;
  config["true_sequential"] = false;
  config["damp_percent"] = 0.01;
  config["lm_head"] = !layers_outside_blocks(recipe).empty();
  for (const auto& [layer, body] : recipe.layer_overrides) {
    const int bits = json_value<int>(body, "bits", recipe.bits, layer);
    const std::string expression = exact_expression(layer);
    if (bits >= 16) {
      config["dynamic"]["-:" + expression] = json::object();
      continue;
    }
    config["dynamic"]["+:" + expression] = {
        {"bits", bits},
        {"group_size", json_value<int64_t>(body, "group_size", recipe.group_size, layer)},
        {"sym", json_value<bool>(body, "sym", recipe.sym, layer)}};
  }
  return config;
}

}  // namespace

const Format kAutoGptqFormat = {
    .name = kName,
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack_packed_layer,
    .pack = pack,
    .config_json = config_json,
    .smallest_zero_point = 1,
    .unmatched_rules = unmatched_rules,
    .kv_cache = nullptr,
};

}  // namespace quaver
