#include "formats/weight_scheme.h"

namespace quaver {
namespace {

json activation_to_json(const ActivationQuant& activation) {
  if (activation.mode == ActivationQuant::Mode::kNone) return nullptr;
  return {{"dynamic", activation.mode == ActivationQuant::Mode::kDynamic},
          {"element", element_info(activation.element).name},
          {"group", activation.group},
          {"sym", activation.sym},
          {"narrow", activation.narrow},
          {"scale", scale_codec_info(activation.scale).name},
          {"power_of_two", static_cast<int>(activation.power_of_two)},
          {"super_scale", activation.super_scale}};
}

template <class Table>
auto by_name(const Table& table, const std::string& name) {
  for (const auto& row : table)
    if (row.name == name) return row;
  fail(ErrorKind::kInternal, "no element or scale type is called '", name, "'");
}

ActivationQuant activation_from_json(const json& value) {
  if (value.is_null()) return {};
  return {.mode = value.at("dynamic") ? ActivationQuant::Mode::kDynamic : ActivationQuant::Mode::kStatic,
          .element = by_name(kElements, value.at("element")).element,
          .group = value.at("group"),
          .sym = value.at("sym"),
          .narrow = value.at("narrow"),
          .scale = by_name(kScaleCodecs, value.at("scale")).codec,
          .power_of_two = static_cast<PowerOfTwo>(value.at("power_of_two").get<int>()),
          .super_scale = value.at("super_scale")};
}

}  // namespace

std::string describe(const WeightScheme& scheme) {
  if (scheme.plain) return "a plain weight";
  const std::string element(element_info(scheme.element).name);
  if (scheme.group == Extent2d{}) return element + " with one scale";
  if (scheme.group == Extent2d{1, 0}) return element + " with a scale per row";
  if (scheme.group.rows == 1) return cat(element, " in groups of ", scheme.group.cols);
  return cat(element, " in blocks of [", scheme.group.rows, ", ", scheme.group.cols, "]");
}

json scheme_to_json(const WeightScheme& scheme) {
  return {{"element", element_info(scheme.element).name},
          {"storage", static_cast<int>(scheme.storage)},
          {"group", {scheme.group.rows, scheme.group.cols}},
          {"scale", scheme.scale ? json(scale_codec_info(*scheme.scale).name) : json()},
          {"has_divisor", scheme.has_divisor},
          {"sign_magnitude", scheme.sign_magnitude},
          {"sym", scheme.sym},
          {"activation", activation_to_json(scheme.activation)}};
}

WeightScheme scheme_from_json(const json& value) {
  WeightScheme scheme;
  scheme.element = by_name(kElements, value.at("element")).element;
  scheme.storage = static_cast<CodeStorage>(value.at("storage").get<int>());
  scheme.group = {value.at("group").at(0), value.at("group").at(1)};
  if (const json& scale = value.at("scale"); !scale.is_null())
    scheme.scale = by_name(kScaleCodecs, scale).codec;
  scheme.has_divisor = value.at("has_divisor");
  scheme.sign_magnitude = value.at("sign_magnitude");
  scheme.sym = value.at("sym");
  scheme.activation = activation_from_json(value.at("activation"));
  return scheme;
}

}  // namespace quaver
