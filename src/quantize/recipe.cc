#include "quantize/recipe.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace quaver::quantize {
namespace {

using Mode = ActivationQuant::Mode;

bool is_weight_only_integer(const WeightScheme& form) {
  return element_info(form.element).integer && form.group.rows == 1 && !form.has_divisor &&
         form.activation.mode == Mode::kNone;
}

// 0 stands for the whole extent, which a larger group covers as well.
bool same_extent(int64_t group, int64_t base, int64_t extent) {
  return group == base || (group == 0 && base >= extent);
}

bool same_form(const WeightScheme& form, const WeightScheme& base, Extent2d shape) {
  return form.element == base.element && form.storage == base.storage && form.scale == base.scale &&
         form.has_divisor == base.has_divisor && form.sym == base.sym && form.activation == base.activation &&
         same_extent(form.group.rows, base.group.rows, shape.rows) &&
         same_extent(form.group.cols, base.group.cols, shape.cols);
}

json integer_override(const WeightScheme& form) {
  return {{"bits", element_info(form.element).bits},
          {"group_size", form.group.cols == 0 ? -1 : form.group.cols},
          {"sym", form.sym}};
}

}  // namespace

std::vector<std::string> plain_modules(const Checkpoint& checkpoint,
                                       const std::vector<std::string>& quantized, const std::string& head) {
  constexpr std::string_view kSuffix = ".weight";
  std::set<std::string> known(quantized.begin(), quantized.end());
  std::vector<std::string> plain;
  auto add = [&](std::string module) {
    if (known.insert(module).second) plain.push_back(std::move(module));
  };
  for (const TensorInfo& info : checkpoint.tensors())
    if (info.shape.size() == 2 && info.name.ends_with(kSuffix))
      add(info.name.substr(0, info.name.size() - kSuffix.size()));
  if (!head.empty()) add(head);
  return plain;
}

std::set<std::string> cache_tensors(const Checkpoint& checkpoint, const Format* format,
                                    const std::string& attention) {
  if (!format) return {};
  const std::vector<std::string> names = read_kv_scales(checkpoint, attention).tensors;
  return {names.begin(), names.end()};
}

std::set<std::string> tensors_of_layer(const Checkpoint& checkpoint, const Format& format,
                                       const std::string& layer) {
  LayerPlan plan = format.plan(checkpoint, layer);
  std::set<std::string> names(plan.tensors.begin(), plan.tensors.end());
  names.insert(plan.dropped.begin(), plan.dropped.end());
  return names;
}

WeightScheme form_of(const QuantWeight& w) {
  const ElementInfo& element = element_info(w.element);
  WeightScheme form{.element = w.element,
                    .group = {w.group.rows > 1 && w.group.rows >= w.shape.rows ? 0 : w.group.rows,
                              w.group.cols >= w.shape.cols ? 0 : w.group.cols},
                    .scale = w.scale.codec,
                    .has_divisor = w.scale.super != nullptr,
                    .sym = std::holds_alternative<std::monostate>(w.offset),
                    .activation = w.activation};
  form.activation.static_scale = form.activation.super_scale = 1.0f;
  form.activation.super_divisor = 0.0f;
  form.activation.static_zero = 0;
  const bool words = element.integer && (element.bits < 8 || w.activation.mode == Mode::kNone);
  form.storage = words               ? CodeStorage::kWords
                 : element.bits == 4 ? CodeStorage::kNibbles
                                     : CodeStorage::kBytes;
  return form;
}

bool form_says_all(const QuantWeight& w) {
  const Scales* second = w.scale.super.get();
  const bool one_number =
      !second || second->data.size_bytes() == static_cast<size_t>(scale_codec_info(second->codec).bytes);
  return one_number && !std::holds_alternative<RealMins>(w.offset);
}

void RecipeOfLayers::add(const std::string& layer, const QuantWeight& weight) {
  layers_.push_back({layer, form_of(weight), weight.shape});
}

const RecipeOfLayers::Layer& RecipeOfLayers::most_frequent() const {
  std::map<std::string, const Layer*> kinds;
  for (const Layer& layer : layers_) kinds.emplace(scheme_to_json(layer.form).dump(), &layer);
  auto count = [&](const auto& kind) {
    return std::ranges::count_if(
        layers_, [&](const Layer& layer) { return same_form(layer.form, kind.second->form, layer.shape); });
  };
  return *std::ranges::max_element(kinds, {}, count)->second;
}

// Small layers show only one side of a block, so the sides are put together.
Extent2d RecipeOfLayers::whole_tile(Extent2d tile) const {
  if (tile.rows == 1) return tile;
  for (const Layer& layer : layers_)
    if (layer.form.group.rows != 1)
      tile = {std::max(tile.rows, layer.form.group.rows), std::max(tile.cols, layer.form.group.cols)};
  return tile;
}

Recipe RecipeOfLayers::recipe() const {
  Layer base = most_frequent();
  base.form.group = whole_tile(base.form.group);
  Recipe recipe{.bits = element_info(base.form.element).bits,
                .group_size = base.form.group.cols == 0 ? -1 : base.form.group.cols,
                .sym = base.form.sym};
  if (!is_weight_only_integer(base.form)) recipe.scheme = base.form;
  for (const Layer& layer : layers_) {
    recipe.layers.push_back(layer.name);
    if (same_form(layer.form, base.form, layer.shape)) continue;
    if (is_weight_only_integer(layer.form) && !recipe.scheme) {
      recipe.layer_overrides.emplace_back(layer.name, integer_override(layer.form));
      continue;
    }
    WeightScheme& form = recipe.form_overrides[layer.name] = layer.form;
    form.group = whole_tile(form.group);
  }
  return recipe;
}

}  // namespace quaver::quantize
