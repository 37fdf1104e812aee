#include "formats/auto_round.h"

#include <algorithm>

#include "base/log.h"
#include "formats/auto_round_scheme.h"
#include "formats/packed_config.h"
#include "formats/scaled_layer.h"

namespace quaver {
namespace {

constexpr const char* kName = "auto_round";

bool detect(const Checkpoint& checkpoint) {
  return names_method(checkpoint, {"auto-round", "auto_round", "autoround", "intel/auto-round", "inc"});
}

// "auto_round:auto_gptq", "auto_round:gptq:exllamav2", "auto_round", "autoround:exllamav2", "auto_round:awq"
// ...: whatever follows the layout names a kernel and says nothing about the bytes.
PackedConvention convention_of(const std::string& packing, const std::string& what) {
  std::string_view rest = packing;
  for (std::string_view prefix : {"auto_round", "autoround", "auto-round"})
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  while (rest.starts_with(':')) rest.remove_prefix(1);
  const std::string_view layout = rest.substr(0, rest.find(':'));
  if (layout == "awq" || layout == "auto_awq") return {.layout = PackedLayout::kInterleavedAlongOut};
  if (layout == "gptq" || layout == "auto_gptq" || layout == "auto") return {.zero_offset = 1};
  for (std::string_view stored_as_is : {"", "gptqmodel", "exllamav2", "tritonv2", "triton", "torch", "fake"})
    if (layout == stored_as_is) return {};
  fail(ErrorKind::kUnsupported, what, ": packing_format '", packing.substr(0, 80),
       "' is not supported; integer packings are auto_round:auto_gptq, auto_round:gptqmodel, "
       "auto_round:auto_awq and "
       "auto_round");
}

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
  for (const char* key : {"static_kv_dtype", "static_attention_dtype"})
    if (config.value.contains(key) && !config.value.at(key).is_null())
      log_warning(what, ": key '", key, "' is ignored; the cache stays unquantized");
  for (const char* key : {"block_name_to_quantize", "to_quant_block_names"})
    if (settings.rules.blocks.empty() && config.value.contains(key))
      settings.rules.blocks = parse_name_list(config.value.at(key), cat(what, ": key '", key, "'"));
  for (const auto& [key, body] : ordered_members(checkpoint, config, "extra_config"))
    settings.rules.rules.push_back(make_rule(key, body, config.value, what));
  if (has_integers(settings.rules)) settings.convention = convention_of(packing_of(config.value, what), what);
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

// The interleaved packing knows 4 bits only, and a stored z - 1 can't hold every asymmetric zero point.
std::string packing_for(const Recipe& recipe) {
  if (recipe.sym) return "auto_round:auto_gptq";
  const bool all_four =
      std::all_of(recipe.layer_overrides.begin(), recipe.layer_overrides.end(), [&](const auto& o) {
        const int bits = json_value<int>(o.second, "bits", recipe.bits, o.first);
        return bits == 4 || bits >= 16;
      });
  return recipe.bits == 4 && all_four ? "auto_round:auto_awq" : "auto_round";
}

std::vector<NamedTensor> pack(const QuantWeight& weight, std::string_view layer, const Recipe& recipe) {
  return pack_packed_layer(weight, layer, convention_of(packing_for(recipe), kName));
}

json config_json(const Recipe& recipe) {
  json config = packed_config_json(recipe, "auto-round");
  config["packing_format"] = packing_for(recipe);
  if (!recipe.block_names.empty()) config["block_name_to_quantize"] = join_names(recipe.block_names);
  for (const auto& [layer, body] : recipe.layer_overrides) config["extra_config"][layer] = body;
  return config;
}

}  // namespace

const Format kAutoRoundFormat = {
    .name = kName,
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .pack = pack,
    .config_json = config_json,
    .unmatched_rules = unmatched_rules,
    .kv_cache = kv_cache,
};

}  // namespace quaver
