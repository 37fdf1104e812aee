#include "formats/auto_awq.h"

#include <algorithm>

#include "formats/packed_config.h"

namespace quaver {
namespace {

constexpr const char* kName = "auto_awq";

const std::initializer_list<std::string_view> kMethods = {"awq", "auto_awq", "awq_marlin"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

// The first files call bits and group size by other names.
json with_usual_names(json settings) {
  const std::pair<const char*, const char*> aliases[] = {{"w_bit", "bits"}, {"q_group_size", "group_size"}};
  for (const auto& [old_name, name] : aliases)
    if (!settings.contains(name) && settings.contains(old_name)) settings[name] = settings[old_name];
  return settings;
}

// "exllama" is a kernel's name; the file is in the same layout.
void require_gemm(const json& settings, const std::string& what) {
  for (const char* key : {"version", "format", "checkpoint_format"}) {
    std::string layout = json_value<std::string>(settings, key, "gemm", what);
    std::transform(layout.begin(), layout.end(), layout.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    require(layout == "gemm" || layout == "exllama", ErrorKind::kUnsupported, what, ": ", key, " '",
            layout.substr(0, 80), "' is not supported; 'gemm' is");
  }
}

PackedSettings read_settings(const Checkpoint&, const QuantizationConfig& config, const std::string& what) {
  const json value = with_usual_names(config.value);
  require_gemm(value, what);
  PackedSettings settings;
  settings.rules.defaults = parse_int_scheme(value, {}, what);
  settings.rules.defaults.sym = !json_value<bool>(value, "zero_point", true, what);
  settings.convention.layout = PackedLayout::kInterleavedAlongOut;
  const auto skipped = value.find("modules_to_not_convert");
  if (skipped == value.end()) return settings;
  for (const std::string& name : parse_name_list(*skipped, cat(what, ": key 'modules_to_not_convert'")))
    settings.rules.rules.push_back({NamePattern::components(name), {.plain = true, .rule = name}});
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
  return pack_packed_layer(weight, layer, {.layout = PackedLayout::kInterleavedAlongOut});
}

json config_json(const Recipe& recipe) {
  require(recipe.bits == 4, ErrorKind::kInvalidInput, "this format holds 4 bits, got ", recipe.bits);
  json config = packed_config_json(recipe, "awq");
  config.update(packed_integer_settings(recipe));
  config["provider"] = "auto-round";
  config["version"] = "gemm";
  config["zero_point"] = !recipe.sym;
  if (!recipe.block_names.empty()) config["to_quant_block_names"] = join_names(recipe.block_names);
  json plain = recipe.plain_modules;
  for (const auto& [layer, body] : recipe.layer_overrides) {
    require(json_value<int>(body, "bits", recipe.bits, layer) >= 16, ErrorKind::kInvalidInput, "layer '",
            layer, "': this format has one scheme for all layers");
    plain.push_back(layer);
  }
  if (!plain.empty()) config["modules_to_not_convert"] = std::move(plain);
  return config;
}

}  // namespace

const Format kAutoAwqFormat = {
    .name = kName,
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack_packed_layer,
    .pack = pack,
    .config_json = config_json,
    .unmatched_rules = unmatched_rules,
    .kv_cache = nullptr,
};

}  // namespace quaver
