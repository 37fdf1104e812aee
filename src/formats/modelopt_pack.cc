#include "formats/modelopt_pack.h"

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
               {"kv_cache_quant_algo", nullptr},
               {"exclude_modules", config.at("ignore")}};
  if (const json group = config.value("/config_groups/group_0/weights/group_size"_json_pointer, json());
      !group.is_null())
    body["group_size"] = group;
  return {{"producer", config.at("producer")}, {"quantization", std::move(body)}};
}

json modelopt_config_json(const Recipe& recipe) {
  const char* algorithm =
      recipe.scheme ? algorithm_of(recipe.scheme->element, recipe.scheme->group, recipe.scheme->activation)
                    : nullptr;
  require(algorithm != nullptr, ErrorKind::kInvalidInput, "this format does not write ",
          recipe.scheme ? describe(*recipe.scheme) : cat(recipe.bits, "-bit integers"), "; ", kWritten);
  json ignored = recipe.plain_modules;
  for (const auto& [layer, body] : recipe.layer_overrides) {
    require(json_value<int>(body, "bits", 0, layer) >= 16, ErrorKind::kInvalidInput, "layer '", layer,
            "': this format is written with one scheme for all layers");
    ignored.push_back(layer);
  }
  json config = {{"quant_method", "modelopt"},
                 {"quant_algo", algorithm},
                 {"ignore", ignored.is_null() ? json::array() : ignored},
                 {"producer", {{"name", "modelopt"}, {"version", "0.47.0"}}}};
  if (recipe.scheme->group == Extent2d{1, 0}) return config;
  json weights = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
  if (recipe.scheme->element == Element::kE2M1) weights.update({{"num_bits", 4}, {"group_size", 16}});
  config["config_groups"]["group_0"] = {{"weights", weights}, {"targets", {"Linear"}}};
  if (recipe.scheme->activation.mode != Mode::kNone)
    config["config_groups"]["group_0"]["input_activations"] = weights;
  return config;
}

}  // namespace quaver
