// The settings of compressed-tensors, written.
#include <set>

#include "formats/compressed_tensors_config.h"

namespace quaver {
namespace {

// Every key that the library itself writes, with the values it leaves unset.
json args_json(const Element element, const char* strategy) {
  const ElementInfo& info = element_info(element);
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", false},
          {"group_size", nullptr},
          {"num_bits", info.bits},
          {"observer", nullptr},
          {"observer_kwargs", json::object()},
          {"scale_dtype", nullptr},
          {"strategy", strategy},
          {"symmetric", true},
          {"type", info.integer ? "int" : "float"},
          {"zp_dtype", nullptr}};
}

json scale_dtype_json(ScaleCodec codec) {
  if (codec == ScaleCodec::kE8M0) return "torch.uint8";
  return codec == ScaleCodec::kE4M3FN ? json("torch.float8_e4m3fn") : json();
}

const char* strategy_of(Extent2d group, bool two_levels) {
  if (two_levels) return "tensor_group";
  if (group == Extent2d{}) return "tensor";
  if (group == Extent2d{1, 0}) return "channel";
  return group.rows == 1 ? "group" : "block";
}

json weights_json(const WeightScheme& scheme) {
  json args = args_json(scheme.element, strategy_of(scheme.group, scheme.has_divisor));
  args["symmetric"] = scheme.sym;
  if (!scheme.sym) args["zp_dtype"] = "torch.int8";
  if (scheme.group.rows == 1 && scheme.group.cols > 0) args["group_size"] = scheme.group.cols;
  if (scheme.group.rows > 1) args["block_structure"] = {scheme.group.rows, scheme.group.cols};
  if (scheme.scale) args["scale_dtype"] = scale_dtype_json(*scheme.scale);
  return args;
}

json activation_json(const ActivationQuant& activation) {
  if (activation.mode == ActivationQuant::Mode::kNone) return nullptr;
  const bool two_levels = activation.scale == ScaleCodec::kE4M3FN;
  const char* strategy = two_levels             ? "tensor_group"
                         : activation.group > 0 ? "group"
                         : activation.group < 0 ? "token"
                                                : "tensor";
  json args = args_json(activation.element, strategy);
  args["symmetric"] = activation.sym;
  if (!activation.sym) args["zp_dtype"] = "torch.int8";
  if (activation.group > 0) args["group_size"] = activation.group;
  args["scale_dtype"] = scale_dtype_json(activation.scale);
  if (activation.mode == ActivationQuant::Mode::kDynamic)
    args["dynamic"] = two_levels ? json("local") : json(true);
  return args;
}

const char* format_of(const WeightScheme& scheme) {
  if (element_info(scheme.element).integer)
    return scheme.storage == CodeStorage::kWords ? "pack-quantized" : "int-quantized";
  const bool powers = scheme.scale == ScaleCodec::kE8M0;
  if (scheme.element == Element::kE2M1) return powers ? "mxfp4-pack-quantized" : "nvfp4-pack-quantized";
  return powers ? "mxfp8-quantized" : "float-quantized";
}

// The group's "format", "weights" and "input_activations".
json group_json(const WeightScheme& scheme, json targets) {
  return {{"format", format_of(scheme)},
          {"input_activations", activation_json(scheme.activation)},
          {"output_activations", nullptr},
          {"targets", std::move(targets)},
          {"weights", weights_json(scheme)}};
}

// Of a layer with other bits, group size or symmetry.
WeightScheme override_scheme(const Recipe& recipe, const std::string& layer, const json& body) {
  return compressed_scheme_of(
      {.bits = json_value<int>(body, "bits", recipe.bits, layer),
       .group_size = json_value<int64_t>(body, "group_size", recipe.group_size, layer),
       .sym = json_value<bool>(body, "sym", recipe.sym, layer)},
      layer);
}

bool same_but_targets(json a, json b) {
  a.erase("targets"), b.erase("targets");
  return a == b;
}

// Layers of one scheme share a group.
void add_target(json& groups, const WeightScheme& scheme, const std::string& layer) {
  json group = group_json(scheme, json::array({layer}));
  for (json& other : groups)
    if (same_but_targets(other, group)) {
      other["targets"].push_back(layer);
      return;
    }
  groups.push_back(std::move(group));
}

}  // namespace

WeightScheme compressed_scheme_of(const Recipe& recipe, std::string_view layer) {
  if (const WeightScheme* form = form_of_layer(recipe, layer)) return *form;
  return {.element = integer_element(recipe.bits),
          .storage = CodeStorage::kWords,
          .group = {1, recipe.group_size == -1 ? 0 : recipe.group_size},
          .sym = recipe.sym};
}

json compressed_config_json(const Recipe& recipe) {
  json ignore = recipe.plain_modules, groups = json::array(), others = json::array({"Linear"});
  std::set<std::string> named;  // with a scheme of their own
  for (const auto& [layer, body] : recipe.layer_overrides) {
    named.insert(layer);
    if (json_value<int>(body, "bits", recipe.bits, layer) >= 16)
      ignore.push_back(layer);
    else
      add_target(groups, override_scheme(recipe, layer, body), layer);
  }
  for (const auto& [layer, form] : recipe.form_overrides) {
    named.insert(layer);
    add_target(groups, form, layer);
  }
  // Engines have a class of their own for a head, which "Linear" does not reach.
  for (const std::string& layer : layers_outside_blocks(recipe))
    if (!named.contains(layer)) others.push_back(layer);
  const WeightScheme scheme = compressed_scheme_of(recipe, "");
  groups.push_back(group_json(scheme, std::move(others)));
  json config = {{"format", groups.size() > 1 ? "mixed-precision" : format_of(scheme)},
                 {"global_compression_ratio", nullptr},
                 {"ignore", std::move(ignore)},
                 {"kv_cache_scheme", recipe.fp8_kv_cache ? args_json(Element::kE4M3FN, "tensor") : json()},
                 {"quant_method", "compressed-tensors"},
                 {"quantization_status", "compressed"}};
  for (size_t i = 0; i < groups.size(); ++i) config["config_groups"][cat("group_", i)] = groups[i];
  return config;
}

}  // namespace quaver
