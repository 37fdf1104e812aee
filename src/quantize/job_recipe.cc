#include "quantize/job_recipe.h"

namespace quaver::quantize {
namespace {

json changes_of(const Scheme& scheme, const Scheme& base) {
  json changes = json::object();
  if (scheme.bits != base.bits) changes["bits"] = scheme.bits;
  if (scheme.group_size != base.group_size) changes["group_size"] = scheme.group_size;
  if (scheme.sym != base.sym) changes["sym"] = scheme.sym;
  return changes;
}

void add_override(Recipe& recipe, const LayerDecision& decision, const Scheme& base, const Format& format) {
  const Scheme& scheme = decision.scheme;
  if (scheme.bits == 16)
    recipe.layer_overrides.emplace_back(decision.name, json{{"bits", 16}, {"data_type", "float"}});
  else if (is_plain_integer(scheme) && is_plain_integer(base))
    recipe.layer_overrides.emplace_back(decision.name, changes_of(scheme, base));
  else
    recipe.form_overrides.emplace(decision.name, form_of(scheme, format));
}

}  // namespace

WeightScheme form_of(const Scheme& scheme, const Format& format) {
  WeightScheme form = stored_scheme(scheme);
  if (form.activation.scale == ScaleCodec::kE8M0) form.activation.power_of_two = format.input_power;
  return form;
}

Recipe recipe_of(const Scheme& base, const std::map<std::string, LayerDecision>& decisions,
                 const Format& format) {
  Recipe recipe{.bits = base.bits, .group_size = base.group_size, .sym = base.sym};
  if (!is_plain_integer(base)) recipe.scheme = form_of(base, format);
  for (const auto& [name, decision] : decisions) {
    if (decision.scheme.bits < 16) recipe.layers.push_back(name);
    if (!(decision.scheme == base)) add_override(recipe, decision, base, format);
  }
  return recipe;
}

}  // namespace quaver::quantize
