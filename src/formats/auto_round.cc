#include "formats/auto_round.h"

#include <algorithm>

#include "base/log.h"
#include "formats/auto_round_scheme.h"
#include "formats/auto_round_write.h"
#include "formats/packed_config.h"
#include "formats/scaled_layer.h"

namespace quaver {
namespace {

constexpr const char* kName = "auto_round";

const std::initializer_list<std::string_view> kMethods = {"auto-round", "auto_round", "autoround",
                                                          "intel/auto-round", "inc"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

// Older files say in "backend" what newer ones say in "packing_format".
std::string packing_of(const json& settings, const std::string& what) {
  const std::string packing = json_value<std::string>(settings, "packing_format", "", what);
  if (!packing.empty()) return packing;
  const std::string backend = json_value<std::string>(settings, "backend", "", what);
  return backend.empty() || backend == "auto" ? "auto_round:auto_gptq" : backend;
}

// The settings of a rule: the defaults where the rule is silent.
json completed(const json& defaults, const json& body, const std::string& what) {
  require(body.is_object(), ErrorKind::kBadFile, what, ": settings must be an object");
  json all = defaults;
  for (const auto& [key, value] : body.items())
    if (!value.is_null()) all[key] = value;
  return all;
}

IntScheme parse_scheme(const json& settings, const std::string& what) {
  if (json_value<int>(settings, "bits", 4, what) >= 16 || !has_scaled_data_type(settings, what)) {
    IntScheme scheme = parse_int_scheme(settings, {}, what);
    if (!scheme.plain) refuse_quantized_activations(settings, what);
    return scheme;
  }
  return {.scaled = std::make_shared<const WeightScheme>(parse_scaled_scheme(settings, what))};
}

LayerRule make_rule(const std::string& key, const json& body, const json& defaults, const std::string& what) {
  const std::string where = cat(what, ": extra_config '", key.substr(0, 200), "'");
  LayerRule rule{
      NamePattern::looks_like_expression(key) ? NamePattern::search(key, what) : NamePattern::name(key),
      parse_scheme(completed(defaults, body, where), where)};
  rule.scheme.rule = key;
  return rule;
}

bool has_integers(const LayerRules& rules) {
  const auto is_integer = [](const IntScheme& scheme) { return !scheme.scaled && !scheme.plain; };
  return is_integer(rules.defaults) ||
         std::any_of(rules.rules.begin(), rules.rules.end(),
                     [&](const LayerRule& rule) { return is_integer(rule.scheme); });
}

PackedSettings read_settings(const Checkpoint& checkpoint, const QuantizationConfig& config,
                             const std::string& what) {
  refuse_keys(config.value, {"rotation_config", "hadamard_config", "transform_config", "super_bits"}, what);
  PackedSettings settings;
  settings.rules.defaults = parse_scheme(config.value, what);
  constexpr const char* kAttention = "static_attention_dtype";
  if (config.value.contains(kAttention) && !config.value.at(kAttention).is_null())
    log_warning(what, ": key '", kAttention, "' is ignored; attention stays unquantized");
  for (const char* key : {"block_name_to_quantize", "to_quant_block_names"})
    if (settings.rules.blocks.empty() && config.value.contains(key))
      settings.rules.blocks = parse_name_list(config.value.at(key), cat(what, ": key '", key, "'"));
  for (const auto& [key, body] : ordered_members(checkpoint, config, "extra_config"))
    settings.rules.rules.push_back(make_rule(key, body, config.value, what));
  if (has_integers(settings.rules))
    settings.convention = auto_round_convention(packing_of(config.value, what), what);
  return settings;
}

std::shared_ptr<const PackedSettings> settings_of(const Checkpoint& checkpoint) {
  return packed_settings(checkpoint, kName, read_settings);
}

WeightScheme as_scaled(const IntScheme& scheme, std::string_view layer) {
  WeightScheme scaled = scheme.scaled ? *scheme.scaled : WeightScheme{.plain = true};
  scaled.rule = scheme.rule;
  scaled.named = scheme.rule == layer;
  return scaled;
}

// What the settings say in words of the other kind is no candidate for this layer.
LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  const auto settings = settings_of(checkpoint);
  std::vector<IntScheme> integers;
  std::vector<WeightScheme> scaled;
  for (const IntScheme& scheme : settings->rules.candidates(layer)) {
    if (!scheme.scaled) integers.push_back(scheme);
    if (scheme.scaled || scheme.plain) scaled.push_back(as_scaled(scheme, layer));
  }
  const bool is_packed = checkpoint.find(cat(layer, ".qweight")) != nullptr;
  if (has_scaled_parts(checkpoint, layer) || (settings->rules.defaults.scaled && !is_packed))
    return plan_scaled_layer(checkpoint, layer, scaled);
  return plan_packed_layer(checkpoint, layer, integers, settings->convention);
}

QuantWeight unpack(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const bool is_packed = plan.tensors.at(0).ends_with(".qweight");
  return is_packed ? unpack_packed_layer(plan, checkpoint) : unpack_scaled_layer(plan, checkpoint);
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  return settings_of(checkpoint)->rules.unmatched(checkpoint);
}

std::optional<KvCacheQuant> kv_cache(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  if (!config) return std::nullopt;
  const std::string what = (checkpoint.path() / config->file).string();
  const std::string type = json_value<std::string>(config->value, "static_kv_dtype", "", what);
  if (type.empty()) return std::nullopt;
  require(type == "fp8" || type == "float8_e4m3fn" || type == "torch.float8_e4m3fn", ErrorKind::kUnsupported,
          what, ": static_kv_dtype '", type.substr(0, 80), "' is not supported; 'fp8' is");
  return KvCacheQuant{};
}

std::vector<NamedTensor> pack_kv(std::string_view attention, const KvPair& scales) {
  return pack_kv_scales(attention, scales, {"k_scale", "v_scale"}, {1});
}

}  // namespace

const Format kAutoRoundFormat = {
    .name = kName,
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .pack = pack_auto_round_layer,
    .config_json = auto_round_config_json,
    .unmatched_rules = unmatched_rules,
    .kv_cache = kv_cache,
    .pack_kv = pack_kv,
};

}  // namespace quaver
