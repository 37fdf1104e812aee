#include "formats/modelopt_config.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/log.h"
#include "formats/layer_rules.h"
#include "formats/packed_config.h"
#include "formats/quantization_config.h"

namespace quaver {
namespace {

using Group = ModelOptAlgorithm::Group;
using Second = ModelOptAlgorithm::Second;
using Mode = ActivationQuant::Mode;

constexpr const char* kMixed = "MIXED_PRECISION";

const ActivationQuant kPlainInput;
const ActivationQuant kStaticE4M3{.mode = Mode::kStatic, .element = Element::kE4M3FN};
const ActivationQuant kNVFP4Input{
    .mode = Mode::kDynamic, .element = Element::kE2M1, .group = 16, .scale = ScaleCodec::kE4M3FN};

// MXFP4's settings don't say whether the input is quantized; it stays plain.
const std::array kAlgorithms = {
    ModelOptAlgorithm{"FP8", Element::kE4M3FN, CodeLayout::kRows, Group::kTensor, ScaleCodec::kF32,
                      Second::kNone, kStaticE4M3},
    ModelOptAlgorithm{"FP8_PER_CHANNEL_PER_TOKEN",
                      Element::kE4M3FN,
                      CodeLayout::kRows,
                      Group::kRow,
                      ScaleCodec::kF32,
                      Second::kNone,
                      {.mode = Mode::kDynamic, .element = Element::kE4M3FN, .group = -1}},
    ModelOptAlgorithm{"FP8_PB_WO", Element::kE4M3FN, CodeLayout::kRows, Group::kBlock, ScaleCodec::kF32,
                      Second::kNone, kPlainInput},
    ModelOptAlgorithm{"NVFP4", Element::kE2M1, CodeLayout::kRows, Group::kAlongIn, ScaleCodec::kE4M3FN,
                      Second::kMultiplies, kNVFP4Input},
    ModelOptAlgorithm{"NVFP4_AWQ", Element::kE2M1, CodeLayout::kRows, Group::kAlongIn, ScaleCodec::kE4M3FN,
                      Second::kMultiplies, kNVFP4Input},
    ModelOptAlgorithm{"W4A16_NVFP4", Element::kE2M1, CodeLayout::kRows, Group::kAlongIn, ScaleCodec::kE4M3FN,
                      Second::kMultiplies, kPlainInput},
    ModelOptAlgorithm{"W4A8_NVFP4_FP8", Element::kE2M1, CodeLayout::kRows, Group::kAlongIn,
                      ScaleCodec::kE4M3FN, Second::kMultiplies, kStaticE4M3},
    ModelOptAlgorithm{"MXFP4", Element::kE2M1, CodeLayout::kRows, Group::kAlongIn, ScaleCodec::kE8M0,
                      Second::kNone, kPlainInput},
    ModelOptAlgorithm{"MXFP8",
                      Element::kE4M3FN,
                      CodeLayout::kRows,
                      Group::kAlongIn,
                      ScaleCodec::kE8M0,
                      Second::kNone,
                      {.mode = Mode::kDynamic,
                       .element = Element::kE4M3FN,
                       .group = 32,
                       .scale = ScaleCodec::kE8M0,
                       .power_of_two = PowerOfTwo::kFit}},
    ModelOptAlgorithm{"W4A16_AWQ", Element::kInt4, CodeLayout::kRowPairs, Group::kAlongIn, ScaleCodec::kF32,
                      Second::kNone, kPlainInput},
    ModelOptAlgorithm{"W4A8_AWQ", Element::kInt4, CodeLayout::kRowPairs, Group::kAlongIn, ScaleCodec::kF32,
                      Second::kUnused, kStaticE4M3},
    ModelOptAlgorithm{"W8A8_SQ_PER_CHANNEL",
                      Element::kInt8,
                      CodeLayout::kSignedRows,
                      Group::kRow,
                      ScaleCodec::kF32,
                      Second::kNone,
                      {.mode = Mode::kStatic, .element = Element::kInt8}},
    ModelOptAlgorithm{"W8A16", Element::kInt8, CodeLayout::kSignedRows, Group::kRow, ScaleCodec::kF32,
                      Second::kNone, kPlainInput},
};

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

// Sub-models are wrapped in one writer's names and not in another's.
std::string unwrapped(std::string_view name) {
  std::string plain(name);
  constexpr std::string_view kWrapper = "language_model.";
  for (size_t at = plain.find(kWrapper); at != std::string::npos; at = plain.find(kWrapper, at))
    if (at == 0 || plain[at - 1] == '.')
      plain.erase(at, kWrapper.size());
    else
      ++at;
  return plain;
}

const ModelOptAlgorithm* require_algorithm(const std::string& name, std::string_view what) {
  if (const ModelOptAlgorithm* found = find_modelopt_algorithm(name)) return found;
  std::string names;
  for (const ModelOptAlgorithm& row : kAlgorithms) names += std::string(row.name) + ", ";
  fail(ErrorKind::kUnsupported, what, ": quant_algo '", name.substr(0, 80),
       "' is not supported; supported are ", names, kMixed);
}

ModelOptSettings::Layer read_layer(const json& body, std::string rule, std::string_view what) {
  refuse_keys(body, {"has_zero_point", "lora_rank", "svd_rank"}, what);
  ModelOptSettings::Layer layer;
  layer.algorithm = require_algorithm(upper(json_required<std::string>(body, "quant_algo", what)), what);
  layer.group_size = json_value<int64_t>(body, "group_size", 0, what);
  require(layer.group_size >= 0, ErrorKind::kBadFile, what, ": group_size ", layer.group_size,
          "; expected a positive number");
  layer.rule = std::move(rule);
  return layer;
}

// The older layout wraps everything but the producer.
const json& body_of(const json& settings, std::string_view what) {
  const auto wrapped = settings.find("quantization");
  if (wrapped == settings.end()) return settings;
  require(wrapped->is_object(), ErrorKind::kBadFile, what, ": key 'quantization' must be an object");
  return *wrapped;
}

std::set<std::string> json_names(const json& list) {
  std::set<std::string> names;
  for (const json& name : list)
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

// What only the file beside config.json says is added; what both say must be the same.
json merged_settings(const Checkpoint& checkpoint, const QuantizationConfig& config,
                     const std::string& what) {
  json body = body_of(config.value, what);
  constexpr const char* kSidecar = "hf_quant_config.json";
  if (config.file == kSidecar) return body;
  const json sidecar = checkpoint.sidecar(kSidecar);
  if (!sidecar.is_object()) return body;
  const std::string beside = (checkpoint.path() / kSidecar).string();
  const json& other = body_of(sidecar, beside);
  const std::string ours = upper(json_value<std::string>(body, "quant_algo", "", what));
  const std::string theirs = upper(json_value<std::string>(other, "quant_algo", ours, beside));
  require(ours.empty() || ours == theirs, ErrorKind::kBadFile, what, ": quant_algo is '", ours.substr(0, 80),
          "', but '", theirs.substr(0, 80), "' in ", kSidecar);
  if (body.contains("ignore") && other.contains("exclude_modules") &&
      json_names(body.at("ignore")) != json_names(other.at("exclude_modules")))
    log_warning(what, ": 'ignore' differs from 'exclude_modules' in ", kSidecar, "; 'ignore' counts");
  for (const char* key : {"quant_algo", "group_size", "has_zero_point", "quantized_layers"})
    if (!body.contains(key) && other.contains(key)) body[key] = other.at(key);
  return body;
}

// "FP8", or the same as an object; nothing where neither key is set.
bool has_fp8_cache(const json& body, const std::string& what) {
  const std::string name = upper(json_value<std::string>(body, "kv_cache_quant_algo", "", what));
  require(name.empty() || name == "FP8", ErrorKind::kUnsupported, what, ": kv_cache_quant_algo '",
          name.substr(0, 80), "' is not supported; 'FP8' is");
  const auto scheme = body.find("kv_cache_scheme");
  if (scheme == body.end() || scheme->is_null()) return !name.empty();
  const json fp8 = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
  require(*scheme == fp8, ErrorKind::kUnsupported, what, ": kv_cache_scheme ", scheme->dump().substr(0, 120),
          " is not supported; ", fp8.dump(), " is");
  return true;
}

NamePattern ignore_pattern(const std::string& name) {
  return name.find('*') == std::string::npos ? NamePattern::name(unwrapped(name))
                                             : NamePattern::glob(unwrapped(name));
}

void read_layers(const json& body, const std::string& what, ModelOptSettings& settings) {
  const json layers = body.value("quantized_layers", json::object());
  require(layers.is_object() && !layers.empty(), ErrorKind::kBadFile, what, ": quant_algo '", kMixed,
          "' needs key 'quantized_layers' with at least one layer");
  for (const auto& [name, layer] : layers.items()) {
    const std::string where = cat(what, ": quantized_layers '", name.substr(0, 200), "'");
    require(layer.is_object(), ErrorKind::kBadFile, where, " must be an object");
    settings.layers[unwrapped(name)] = read_layer(layer, name, where);
  }
}

ModelOptSettings read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  ModelOptSettings settings;
  settings.file = (checkpoint.path() / config->file).string();
  const std::string& what = settings.file;
  const json body = merged_settings(checkpoint, *config, what);
  if (upper(json_required<std::string>(body, "quant_algo", what)) == kMixed)
    read_layers(body, what, settings);
  else
    settings.defaults = read_layer(body, "quant_algo", what);
  settings.fp8_cache = has_fp8_cache(body, what);
  for (const char* key : {"ignore", "exclude_modules"})
    if (const auto names = body.find(key); names != body.end())
      for (const std::string& name : parse_name_list(*names, cat(what, ": key '", key, "'")))
        settings.ignored.push_back(ignore_pattern(name));
  return settings;
}

}  // namespace

bool ModelOptAlgorithm::has_input_scale() const {
  return activation.mode == Mode::kStatic ||
         (activation.mode == Mode::kDynamic && activation.scale == ScaleCodec::kE4M3FN);
}

const ModelOptAlgorithm* find_modelopt_algorithm(std::string_view name) {
  for (const ModelOptAlgorithm& row : kAlgorithms)
    if (name == row.name) return &row;
  return nullptr;
}

ModelOptSettings::Layer ModelOptSettings::layer(std::string_view name) const {
  if (layers.empty()) return ignores(name) ? Layer{} : defaults;
  std::string module = unwrapped(name);
  while (!module.empty()) {  // the layer itself, or a module that holds it
    if (const auto found = layers.find(module); found != layers.end()) return found->second;
    const size_t dot = module.rfind('.');
    module.resize(dot == std::string::npos ? 0 : dot);
  }
  return {};
}

bool ModelOptSettings::ignores(std::string_view name) const {
  const std::string plain = unwrapped(name);
  return std::any_of(ignored.begin(), ignored.end(),
                     [&](const NamePattern& pattern) { return pattern.fit(plain) != NamePattern::kNone; });
}

std::shared_ptr<const ModelOptSettings> modelopt_settings(const Checkpoint& checkpoint) {
  const auto kept = checkpoint.memo("modelopt", [&]() -> std::shared_ptr<const void> {
    return std::make_shared<const ModelOptSettings>(read_settings(checkpoint));
  });
  return std::static_pointer_cast<const ModelOptSettings>(kept);
}

}  // namespace quaver
