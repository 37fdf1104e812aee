#include "formats/modelopt_pack.h"

#include <map>

#include "formats/layer_reader.h"

namespace quaver {
namespace {

using Mode = ActivationQuant::Mode;

const char* kWritten = "FP8, FP8_PER_CHANNEL_PER_TOKEN, NVFP4 and W4A16_NVFP4 are written";

bool is_static_e4m3(const ActivationQuant& a) {
  return a.mode == Mode::kStatic && a.element == Element::kE4M3FN && a.group == 0;
}

bool is_e4m3_per_token(const ActivationQuant& a) {
  return a.mode == Mode::kDynamic && a.element == Element::kE4M3FN && a.group == -1;
}

bool is_nvfp4(const ActivationQuant& a) {
  return a.mode == Mode::kDynamic && a.element == Element::kE2M1 && a.group == 16 &&
         a.scale == ScaleCodec::kE4M3FN;
}

// Null where no algorithm is this. `group` has its whole extents as 0.
const char* algorithm_of(Element element, Extent2d group, const ActivationQuant& activation) {
  if (element == Element::kE4M3FN && group == Extent2d{} && is_static_e4m3(activation)) return "FP8";
  if (element == Element::kE4M3FN && group == Extent2d{1, 0} && is_e4m3_per_token(activation))
    return "FP8_PER_CHANNEL_PER_TOKEN";
  if (element != Element::kE2M1 || group != Extent2d{1, 16}) return nullptr;
  if (is_nvfp4(activation)) return "NVFP4";
  return activation.mode == Mode::kNone ? "W4A16_NVFP4" : nullptr;
}

Extent2d folded_group(const QuantWeight& w) {
  return {w.group.rows >= w.shape.rows && w.shape.rows > 1 ? 0 : w.group.rows,
          w.group.cols >= w.shape.cols ? 0 : w.group.cols};
}

TensorView number(float value) { return {DType::kF32, {}, Buffer::copy_of(std::vector<float>{value})}; }

TensorView pack_scales(const QuantWeight& w) {
  if (w.element == Element::kE2M1)
    return {DType::kF8E4M3, {w.num_group_rows(), w.num_group_cols()}, w.scale.data};
  const std::vector<float> values = decode_scales(w.scale);
  std::vector<int64_t> shape;
  if (w.group.rows == 1) shape = {w.shape.rows};
  return {DType::kF32, shape, Buffer::copy_of(values)};
}

void require_packable(const QuantWeight& w, std::string_view layer, const char* algorithm) {
  const bool four_bits = w.element == Element::kE2M1;
  const bool scaled = four_bits ? w.scale.codec == ScaleCodec::kE4M3FN && w.scale.super &&
                                      w.scale.super->data.size_bytes() == sizeof(float) &&
                                      w.scale.super->codec == ScaleCodec::kF32
                                : true;
  require(algorithm != nullptr && scaled, ErrorKind::kInvalidInput, "layer '", layer,
          "': ", element_info(w.element).name, " in groups of [", w.group.rows, ", ", w.group.cols,
          "] is none of these algorithms; ", kWritten);
  require(!four_bits || w.shape.cols % 16 == 0, ErrorKind::kInvalidInput, "layer '", layer,
          "': ", w.shape.cols, " input channels are no whole number of groups of 16; keep it at 16 bits");
  require(w.permutation.empty() && w.input_multiplier.empty(), ErrorKind::kInvalidInput, "layer '", layer,
          "': this format is written without activation order and input multipliers");
}

// Of a form; null stands for weight-only integers. `where` begins the message.
const char* require_algorithm(const Recipe& recipe, const WeightScheme* form, const std::string& where) {
  const char* algorithm = form ? algorithm_of(form->element, form->group, form->activation) : nullptr;
  require(algorithm != nullptr, ErrorKind::kInvalidInput, where, "this format does not write ",
          form ? describe(*form) : cat(recipe.bits, "-bit integers"), "; ", kWritten);
  return algorithm;
}

// Of one layer among several schemes.
json layer_settings(const Recipe& recipe, const std::string& layer) {
  const WeightScheme& form = *form_of_layer(recipe, layer);
  json settings = {{"quant_algo", require_algorithm(recipe, &form, cat("layer '", layer, "': "))}};
  if (form.element == Element::kE2M1) settings["group_size"] = form.group.cols;
  return settings;
}

json group_json(const WeightScheme& form, json targets) {
  json weights = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
  if (form.element == Element::kE2M1) weights.update({{"num_bits", 4}, {"group_size", 16}});
  json group = {{"weights", weights}, {"targets", std::move(targets)}};
  if (form.activation.mode != Mode::kNone) group["input_activations"] = weights;
  return group;
}

// Each layer under its own name, and the layers of each algorithm in a group.
void add_layers(json& config, const Recipe& recipe) {
  std::map<std::string, std::vector<std::string>> of_algorithm;
  for (const std::string& layer : recipe.layers) {
    config["quantized_layers"][layer] = layer_settings(recipe, layer);
    of_algorithm[config["quantized_layers"][layer].at("quant_algo")].push_back(layer);
  }
  for (const auto& [algorithm, layers] : of_algorithm) {
    const std::string name = cat("group_", config["config_groups"].size());
    config["config_groups"][name] = group_json(*form_of_layer(recipe, layers.front()), layers);
  }
}

json ignored_modules(const Recipe& recipe) {
  json ignored = recipe.plain_modules;
  for (const auto& [layer, body] : recipe.layer_overrides)
    if (json_value<int>(body, "bits", 0, layer) >= 16)
      ignored.push_back(layer);
    else
      fail(ErrorKind::kInvalidInput, "layer '", layer,
           "': this format has no integers with scales in groups");
  return ignored.is_null() ? json::array() : ignored;
}

}  // namespace

std::vector<NamedTensor> pack_modelopt_layer(const QuantWeight& w, std::string_view layer, const Recipe&) {
  const char* algorithm = algorithm_of(w.element, folded_group(w), w.activation);
  require_packable(w, layer, algorithm);
  const bool four_bits = w.element == Element::kE2M1;
  std::vector<NamedTensor> tensors;
  const auto add = [&](const char* part, TensorView view) {
    tensors.push_back({cat(layer, ".", part), std::move(view)});
  };
  add("weight", {four_bits ? DType::kU8 : DType::kF8E4M3, {w.shape.rows, w.row_bytes()}, w.codes});
  add("weight_scale", pack_scales(w));
  if (four_bits) add("weight_scale_2", number(w.scale.super->data.as<float>()[0]));
  if (w.activation.mode == Mode::kStatic) add("input_scale", number(w.activation.static_scale));
  if (is_nvfp4(w.activation)) add("input_scale", number(w.activation.super_scale));
  return tensors;
}

json modelopt_settings_of_file(const json& config) {
  json body = {{"quant_algo", config.at("quant_algo")},
               {"kv_cache_quant_algo", config.contains("kv_cache_scheme") ? json("FP8") : json()},
               {"exclude_modules", config.at("ignore")}};
  if (const json group = config.value("/config_groups/group_0/weights/group_size"_json_pointer, json());
      !group.is_null())
    body["group_size"] = group;
  if (config.contains("quantized_layers")) body["quantized_layers"] = config.at("quantized_layers");
  return {{"producer", config.at("producer")}, {"quantization", std::move(body)}};
}

json modelopt_config_json(const Recipe& recipe) {
  const char* algorithm = require_algorithm(recipe, recipe.scheme ? &*recipe.scheme : nullptr, "");
  json config = {{"quant_method", "modelopt"},
                 {"quant_algo", algorithm},
                 {"ignore", ignored_modules(recipe)},
                 {"producer", {{"name", "modelopt"}, {"version", "0.47.0"}}}};
  if (recipe.fp8_kv_cache)
    config["kv_cache_scheme"] = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
  if (!recipe.form_overrides.empty()) {
    config["quant_algo"] = "MIXED_PRECISION";
    add_layers(config, recipe);
  } else if (recipe.scheme->group != Extent2d{1, 0}) {
    config["config_groups"]["group_0"] = group_json(*recipe.scheme, {"Linear"});
  }
  return config;
}

}  // namespace quaver
