#include "formats/fp8.h"

#include "base/log.h"
#include "formats/packed_config.h"
#include "formats/scaled_layer.h"

namespace quaver {
namespace {

constexpr const char* kName = "fp8";

struct Settings {
  std::vector<WeightScheme> schemes;  // best first
  std::vector<LayerRule> skipped;
  std::optional<KvCacheQuant> kv_cache;
};

const std::initializer_list<std::string_view> kMethods = {"fp8"};

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, kMethods); }

Extent2d read_block(const json& settings, const std::string& what) {
  const auto sizes = json_value<std::vector<int64_t>>(settings, "weight_block_size", {}, what);
  if (sizes.empty()) return {};
  constexpr int64_t kLargest = 1 << 20;
  require(sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0 && sizes[0] <= kLargest && sizes[1] <= kLargest,
          ErrorKind::kBadFile, what, ": weight_block_size ", sizes, "; expected two positive numbers");
  return {sizes[0], sizes[1]};
}

// Of the input: static with a scale for all, or dynamic, per block of the input where weights have blocks and
// per row where they don't.
ActivationQuant read_activation(const json& settings, Extent2d block, const std::string& what) {
  const std::string scheme = json_value<std::string>(settings, "activation_scheme", "dynamic", what);
  require(scheme == "dynamic" || scheme == "static", ErrorKind::kUnsupported, what, ": activation_scheme '",
          scheme.substr(0, 80), "' is not supported; 'dynamic' and 'static' are");
  ActivationQuant activation{.mode = ActivationQuant::Mode::kStatic, .element = Element::kE4M3FN};
  if (scheme == "static") return activation;
  activation.mode = ActivationQuant::Mode::kDynamic;
  activation.group = block == Extent2d{} ? -1 : block.cols;
  const std::string scales = json_value<std::string>(settings, "scale_fmt", "float", what);
  require(scales == "float" || scales == "ue8m0", ErrorKind::kUnsupported, what, ": scale_fmt '",
          scales.substr(0, 80), "' is not supported; 'float' and 'ue8m0' are");
  if (scales == "ue8m0") {
    activation.scale = ScaleCodec::kE8M0;
    activation.power_of_two = PowerOfTwo::kFit;
  }
  return activation;
}

Element read_element(const json& settings, const std::string& what) {
  const std::string name = json_value<std::string>(settings, "fmt", "e4m3", what);
  if (name.starts_with("e4m3") || name == "float8_e4m3fn") return Element::kE4M3FN;
  require(name == "e5m2", ErrorKind::kUnsupported, what, ": fmt '", name.substr(0, 80),
          "' is not supported; 'e4m3' and 'e5m2' are");
  return Element::kE5M2;
}

void refuse_other_experts(const json& settings, const std::string& what) {
  const std::string type = json_value<std::string>(settings, "expert_dtype", "fp8", what);
  require(type == "fp8", ErrorKind::kUnsupported, what, ": expert_dtype '", type.substr(0, 80),
          "' is not supported; 'fp8' is");
}

std::optional<KvCacheQuant> read_kv_cache(const Checkpoint& checkpoint, const json& settings) {
  const auto scheme = settings.find("kv_cache_scheme");
  bool declared = scheme != settings.end() && !scheme->is_null();
  for (const TensorInfo& tensor : checkpoint.tensors())
    declared |= tensor.name.ends_with(".k_scale") || tensor.name.ends_with(".kv_scale");
  return declared ? std::optional(KvCacheQuant{}) : std::nullopt;
}

std::shared_ptr<const void> read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  require(config.has_value(), ErrorKind::kBadFile, checkpoint.path().string(),
          ": has no quantization settings");
  const std::string what = (checkpoint.path() / config->file).string();
  const json& value = config->value;
  refuse_other_experts(value, what);
  const Extent2d block = read_block(value, what);
  WeightScheme scheme{.element = read_element(value, what), .group = block};
  scheme.activation = read_activation(value, block, what);
  auto settings = std::make_shared<Settings>();
  scheme.rule = "weight_block_size";
  if (block != Extent2d{}) settings->schemes.push_back(scheme);
  // Without blocks the tensors say whether a scale is for all or for a row.
  scheme.rule = "activation_scheme";
  scheme.group = {};
  settings->schemes.push_back(scheme);
  scheme.group = {1, 0};
  settings->schemes.push_back(scheme);
  for (const char* key : {"ignored_layers", "modules_to_not_convert"})
    if (value.contains(key))
      for (const std::string& name : parse_name_list(value.at(key), cat(what, ": key '", key, "'")))
        settings->skipped.push_back({NamePattern::components(name), {.plain = true, .rule = name}});
  settings->kv_cache = read_kv_cache(checkpoint, value);
  return settings;
}

std::shared_ptr<const Settings> settings_of(const Checkpoint& checkpoint) {
  return std::static_pointer_cast<const Settings>(
      checkpoint.memo(kName, [&] { return read_settings(checkpoint); }));
}

// A matrix that the blocks don't divide is left plain, and a scale that nothing ever wrote stands beside it.
bool is_plain_with_idle_scale(const Checkpoint& checkpoint, const std::string& layer) {
  const TensorInfo* weight = checkpoint.find(layer + ".weight");
  const TensorInfo* scale = checkpoint.find(layer + ".weight_scale_inv");
  return weight && scale && weight->dtype != DType::kF8E4M3 && weight->dtype != DType::kF8E5M2 &&
         weight->dtype != DType::kF8E4M3FNUZ && scale->size_bytes <= 4;
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer_name) {
  const std::string layer(layer_name);
  const auto settings = settings_of(checkpoint);
  if (is_plain_with_idle_scale(checkpoint, layer)) {
    LayerPlan plan{.layer = layer, .dropped = {layer + ".weight_scale_inv"}};
    log_warning(checkpoint.file_of(plan.dropped[0]), ": tensor '", plan.dropped[0],
                "' scales nothing: its weight is plain");
    return plan;
  }
  std::vector<WeightScheme> candidates = settings->schemes;
  for (const LayerRule& rule : settings->skipped)
    if (rule.pattern.fit(layer) != NamePattern::kNone) {
      candidates.insert(candidates.begin(), {.plain = true, .rule = rule.scheme.rule});
      break;
    }
  return plan_scaled_layer(checkpoint, layer, candidates);
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  LayerRules rules;
  rules.rules = settings_of(checkpoint)->skipped;
  return rules.unmatched(checkpoint);
}

std::optional<KvCacheQuant> kv_cache(const Checkpoint& checkpoint) {
  return settings_of(checkpoint)->kv_cache;
}

}  // namespace

const Format kFp8Format = {
    .name = kName,
    .methods = kMethods,
    .detect = detect,
    .plan = plan,
    .unpack = unpack_scaled_layer,
    .pack = nullptr,
    .config_json = nullptr,
    .unmatched_rules = unmatched_rules,
    .kv_cache = kv_cache,
};

}  // namespace quaver
