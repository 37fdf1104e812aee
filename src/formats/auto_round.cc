#include "formats/auto_round.h"

#include <algorithm>

#include "base/log.h"
#include "formats/packed_config.h"

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

LayerRule make_rule(const std::string& key, const json& body, const IntScheme& defaults,
                    const std::string& what) {
  const std::string where = cat(what, ": extra_config '", key.substr(0, 200), "'");
  LayerRule rule{
      NamePattern::looks_like_expression(key) ? NamePattern::search(key, what) : NamePattern::name(key),
      parse_int_scheme(body, defaults, where)};
  if (!rule.scheme.plain) refuse_quantized_activations(body, where);
  rule.scheme.rule = key;
  return rule;
}

PackedSettings read_settings(const Checkpoint& checkpoint, const QuantizationConfig& config,
                             const std::string& what) {
  refuse_keys(config.value, {"rotation_config", "hadamard_config", "transform_config", "super_bits"}, what);
  refuse_quantized_activations(config.value, what);
  for (const char* key : {"static_kv_dtype", "static_attention_dtype"})
    if (config.value.contains(key) && !config.value.at(key).is_null())
      log_warning(what, ": key '", key, "' is ignored; the cache stays unquantized");
  PackedSettings settings;
  settings.rules.defaults = parse_int_scheme(config.value, {}, what);
  settings.convention = convention_of(packing_of(config.value, what), what);
  for (const char* key : {"block_name_to_quantize", "to_quant_block_names"})
    if (settings.rules.blocks.empty() && config.value.contains(key))
      settings.rules.blocks = parse_name_list(config.value.at(key), cat(what, ": key '", key, "'"));
  for (const auto& [key, body] : ordered_members(checkpoint, config, "extra_config"))
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
    .unpack = unpack_packed_layer,
    .pack = pack,
    .config_json = config_json,
    .unmatched_rules = unmatched_rules,
};

}  // namespace quaver
