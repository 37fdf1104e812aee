#include "formats/torchao.h"

#include <algorithm>
#include <array>

#include "formats/layer_rules.h"
#include "formats/module_rules.h"
#include "formats/name_pattern.h"
#include "formats/packed_config.h"
#include "formats/quantization_config.h"
#include "formats/torchao_tensors.h"

namespace quaver {
namespace {

// What a configuration class makes of a weight.
struct ClassOfConfig {
  const char* config;
  const char* tensor;
};

constexpr std::array kClassOfConfig = {
    ClassOfConfig{"Int4WeightOnlyConfig", "Int4Tensor"},
    ClassOfConfig{"Float8DynamicActivationInt4WeightConfig", "Int4Tensor"},
    ClassOfConfig{"Int8WeightOnlyConfig", "Int8Tensor"},
    ClassOfConfig{"Int8DynamicActivationInt8WeightConfig", "Int8Tensor"},
    ClassOfConfig{"IntxWeightOnlyConfig", "IntxUnpackedToInt8Tensor"},
    ClassOfConfig{"Int8DynamicActivationIntxWeightConfig", "IntxUnpackedToInt8Tensor"},
    ClassOfConfig{"Float8WeightOnlyConfig", "Float8Tensor"},
    ClassOfConfig{"Float8DynamicActivationFloat8WeightConfig", "Float8Tensor"},
};

struct Settings {
  struct Rule {
    NamePattern pattern;
    std::string key, config;  // class of the configuration; empty: left plain
  };
  std::vector<Rule> rules;
  std::vector<NamePattern> skipped;
  std::string defaults;  // class of the configuration; empty: left plain
  std::string file;

  // The class that a layer has, and the key that says so.
  std::pair<std::string, std::string> layer(std::string_view name) const;
};

const std::initializer_list<std::string_view> kMethods = {"torchao"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

std::string config_class(const json& config, const std::string& what) {
  if (config.is_null()) return "";
  require(config.is_object(), ErrorKind::kBadFile, what, " must be an object");
  const auto name = json_required<std::string>(config, "_type", what);
  const bool known = std::any_of(kClassOfConfig.begin(), kClassOfConfig.end(),
                                 [&](const ClassOfConfig& row) { return name == row.config; });
  require(known, ErrorKind::kUnsupported, what, ": class '", name.substr(0, 80), "' is not supported");
  return name;
}

// "re:" is an expression for the whole name.
NamePattern rule_pattern(const std::string& key, const std::string& what) {
  if (!key.starts_with("re:")) return NamePattern::name(key);
  return NamePattern::match_start("(?:" + key.substr(3) + ")$", what);
}

// Each module's own configuration; names come before expressions.
void read_table(const json& data, const std::string& what, Settings& settings) {
  const json table = data.value("fqn_to_config", data.value("module_fqn_to_config", json()));
  require(table.is_object(), ErrorKind::kBadFile, what, ": key 'fqn_to_config' must be an object");
  for (const bool expressions : {false, true})
    for (const auto& [key, config] : table.items()) {
      const std::string where = cat(what, ": '", key.substr(0, 200), "'");
      if (key == "_default")
        settings.defaults = config_class(config, where);
      else if (key.starts_with("re:") == expressions)
        settings.rules.push_back({rule_pattern(key, where), key, config_class(config, where)});
    }
}

Settings read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  Settings settings;
  settings.file = (checkpoint.path() / config->file).string();
  const std::string& what = settings.file;
  const json type = config->value.value("quant_type", json());
  require(
      type.is_object() && type.size() == 1 && type.contains("default"), ErrorKind::kUnsupported, what,
      ": key 'quant_type' must be an object with the one key 'default'; older spellings are not supported");
  const json& body = type.at("default");
  require(body.is_object(), ErrorKind::kBadFile, what, ": key 'quant_type' has no object as 'default'");
  const auto name = json_required<std::string>(body, "_type", what);
  if (name == "FqnToConfig" || name == "ModuleFqnToConfig")
    read_table(body.value("_data", json::object()), what, settings);
  else
    settings.defaults = config_class(body, what);
  const json skipped = config->value.value("modules_to_not_convert", json());
  for (const std::string& module : parse_name_list(skipped, cat(what, ": key 'modules_to_not_convert'")))
    settings.skipped.push_back(NamePattern::components(module));
  return settings;
}

std::shared_ptr<const Settings> settings_of(const Checkpoint& checkpoint) {
  const auto kept = checkpoint.memo("torchao", [&]() -> std::shared_ptr<const void> {
    return std::make_shared<const Settings>(read_settings(checkpoint));
  });
  return std::static_pointer_cast<const Settings>(kept);
}

std::pair<std::string, std::string> Settings::layer(std::string_view name) const {
  for (const Rule& rule : rules)
    if (rule.pattern.fit(name) >= NamePattern::kPattern) return {rule.config, rule.key};
  return {defaults, rules.empty() ? "default" : "_default"};
}

std::string where(const Checkpoint& checkpoint, const std::string& tensor) {
  return cat(checkpoint.file_of(tensor), ": tensor '", tensor, "'");
}

// The class in the description and the one in the settings are both the tool's own word.
void check_against_settings(const Checkpoint& checkpoint, const std::string& layer, const std::string& type,
                            const std::string& tensor) {
  const auto settings = settings_of(checkpoint);
  const auto [config, key] = settings->layer(layer);
  const bool agree = std::any_of(kClassOfConfig.begin(), kClassOfConfig.end(), [&](const ClassOfConfig& row) {
    return config == row.config && type == row.tensor;
  });
  require(agree, ErrorKind::kBadFile, where(checkpoint, tensor), " is part of a ", type, ", but '", key,
          "' in ", settings->file, config.empty() ? " leaves its layer plain" : cat(" asks for ", config));
}

bool has_parts(const Checkpoint& checkpoint, const std::string& layer) {
  return checkpoint.find(layer + "._weight_qdata") || checkpoint.find(layer + "._weight_scale");
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  LayerPlan plan{.layer = std::string(layer)};
  const std::string parameter_name = plan.layer + ".weight";
  const std::string text = checkpoint.metadata(parameter_name);
  const std::string what = cat(checkpoint.path().string(), ": the description of '", parameter_name, "'");
  const TorchAoParameter parameter = text.empty() ? TorchAoParameter{} : parse_torchao_parameter(text, what);
  if (parameter.type.empty()) {
    require(!has_parts(checkpoint, plan.layer), ErrorKind::kBadFile, checkpoint.path().string(), ": layer '",
            plan.layer, "' has parts of a quantized weight, but nothing describes '", parameter_name, "'");
    return plan;
  }
  check_torchao_parameter(parameter, what);
  for (const std::string& part : parameter.parts) {
    plan.tensors.push_back(cat(plan.layer, "._weight_", part));
    require(checkpoint.find(plan.tensors.back()) != nullptr, ErrorKind::kBadFile, checkpoint.path().string(),
            ": tensor '", plan.tensors.back(), "' is missing although its weight's description names it");
  }
  check_against_settings(checkpoint, plan.layer, parameter.type, plan.tensors[0]);
  plan.scheme = {{"type", parameter.type}, {"data", parameter.data}};
  return plan;
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  const auto settings = settings_of(checkpoint);
  std::vector<ModuleRule> rules;
  for (const Settings::Rule& rule : settings->rules) rules.push_back({&rule.pattern, rule.key});
  for (const NamePattern& pattern : settings->skipped) rules.push_back({&pattern, pattern.key()});
  return unmatched_keys(checkpoint, rules);
}

}  // namespace

const Format kTorchAoFormat = {
    .name = "torchao",
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack_torchao,
    .unmatched_rules = unmatched_rules,
};

}  // namespace quaver
