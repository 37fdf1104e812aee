#include "formats/quark_config.h"

#include <algorithm>

#include "formats/layer_rules.h"
#include "formats/packed_config.h"
#include "formats/quantization_config.h"

namespace quaver {
namespace {

bool fits_any(const std::vector<NamePattern>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const NamePattern& pattern) { return pattern.fit(name) != NamePattern::kNone; });
}

// "re:" begins an expression; anything else is a name, perhaps with wildcards.
NamePattern make_pattern(const std::string& key, const std::string& what) {
  if (key.starts_with("re:")) return NamePattern::match_start(key.substr(3), what);
  return key.find_first_of("*?") == std::string::npos ? NamePattern::name(key) : NamePattern::glob(key);
}

const json& object_at(const json& settings, const char* key, const std::string& what) {
  static const json none = json::object();
  const auto it = settings.find(key);
  if (it == settings.end() || it->is_null()) return none;
  require(it->is_object(), ErrorKind::kBadFile, what, ": key '", key, "' must be an object");
  return *it;
}

void read_export(const json& settings, const std::string& what, QuarkSettings& into) {
  const json& body = object_at(settings, "export", what);
  const auto format = json_value<std::string>(body, "weight_format", "real_quantized", what);
  require(format == "real_quantized", ErrorKind::kUnsupported, what, ": weight_format '",
          format.substr(0, 80), "' is not supported; 'real_quantized' is");
  const auto method = json_value<std::string>(body, "pack_method", "reorder", what);
  require(method == "reorder" || method == "order", ErrorKind::kUnsupported, what, ": pack_method '",
          method.substr(0, 80), "' is not supported; 'reorder' and 'order' are");
  into.reordered = method == "reorder";
}

// A cache of e4m3fn with one scale for each tensor is the one kind that is known.
void check_cached(const json& layer, const std::string& what) {
  const json& output = object_at(layer, "output_tensors", what);
  const auto dtype = json_value<std::string>(output, "dtype", "", what);
  const auto scheme = json_value<std::string>(output, "qscheme", "", what);
  require(
      dtype == "fp8_e4m3" && scheme == "per_tensor" && !json_value<bool>(output, "is_dynamic", false, what),
      ErrorKind::kUnsupported, what, ": a cache of dtype '", dtype.substr(0, 80), "' and qscheme '",
      scheme.substr(0, 80), "' is not supported; static 'fp8_e4m3' with 'per_tensor' is");
}

// Newer files give the caches their own table, older ones name keys of the layers' table.
void read_cached(const json& settings, const std::string& what, QuarkSettings& into) {
  for (const auto& [key, layer] : object_at(settings, "kv_cache_quant_config", what).items()) {
    check_cached(layer, cat(what, ": kv_cache_quant_config '", key.substr(0, 200), "'"));
    into.cached.push_back(make_pattern(key, what));
  }
  if (!into.cached.empty()) return;
  const json& layers = object_at(settings, "layer_quant_config", what);
  const json& body = object_at(settings, "export", what);
  for (const std::string& key :
       parse_name_list(body.value("kv_cache_group", json()), cat(what, ": kv_cache_group"))) {
    require(layers.contains(key), ErrorKind::kBadFile, what, ": kv_cache_group names '", key.substr(0, 200),
            "', which layer_quant_config does not have");
    check_cached(layers.at(key), cat(what, ": layer_quant_config '", key.substr(0, 200), "'"));
    into.cached.push_back(make_pattern(key, what));
  }
}

// Rotations that run while the model does are part of the weights' meaning.
void refuse_online_algorithms(const json& settings, const std::string& what) {
  const auto algorithms = settings.find("algo_config");
  if (algorithms == settings.end() || algorithms->is_null()) return;
  const json list = algorithms->is_array() ? *algorithms : json::array({*algorithms});
  for (const json& entry : list) {
    const std::string name = entry.is_object() ? json_value<std::string>(entry, "name", "", what) : "";
    require(name != "rotation" && name != "quarot", ErrorKind::kUnsupported, what, ": algo_config '", name,
            "' may rotate activations at run time, which is not supported");
  }
}

// Keys are class names, spelled in several ways; only linear layers matter here.
json linear_defaults(const json& settings, const std::string& what) {
  for (const auto& [key, layer] : object_at(settings, "layer_type_quant_config", what).items())
    if (key.ends_with("Linear") || key.ends_with("Linear'>")) return layer;
  return settings.value("global_quant_config", json());
}

QuarkSettings read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  QuarkSettings settings;
  settings.file = (checkpoint.path() / config->file).string();
  const std::string& what = settings.file;
  refuse_keys(config->value, {"softmax_quant_spec"}, what);
  refuse_online_algorithms(config->value, what);
  read_export(config->value, what, settings);
  settings.defaults = linear_defaults(config->value, what);
  for (const auto& [key, layer] : ordered_members(checkpoint, *config, "layer_quant_config"))
    settings.rules.push_back({make_pattern(key, what), key, layer});
  const json excluded = config->value.value("exclude", json());
  for (const std::string& key : parse_name_list(excluded, cat(what, ": key 'exclude'")))
    settings.excluded.push_back(make_pattern(key, what));
  read_cached(config->value, what, settings);
  if (!settings.defaults.is_null()) parse_quark_scheme(settings.defaults, cat(what, ": global_quant_config"));
  for (const QuarkSettings::Rule& rule : settings.rules)
    parse_quark_scheme(rule.layer, cat(what, ": layer_quant_config '", rule.key.substr(0, 200), "'"));
  return settings;
}

}  // namespace

std::pair<json, std::string> QuarkSettings::layer(std::string_view name) const {
  if (excludes(name)) return {};
  for (const Rule& rule : rules)
    if (rule.pattern.fit(name) != NamePattern::kNone)
      return {rule.layer, cat("layer_quant_config '", rule.key.substr(0, 200), "'")};
  return {defaults, "global_quant_config"};
}

bool QuarkSettings::excludes(std::string_view name) const { return fits_any(excluded, name); }

bool QuarkSettings::caches(std::string_view name) const { return fits_any(cached, name); }

std::shared_ptr<const QuarkSettings> quark_settings(const Checkpoint& checkpoint) {
  const auto kept = checkpoint.memo("quark", [&]() -> std::shared_ptr<const void> {
    return std::make_shared<const QuarkSettings>(read_settings(checkpoint));
  });
  return std::static_pointer_cast<const QuarkSettings>(kept);
}

}  // namespace quaver
