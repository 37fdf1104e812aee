#include "formats/recipe.h"

#include <algorithm>

#include "base/error.h"

namespace quaver {

const WeightScheme* form_of_layer(const Recipe& recipe, std::string_view layer) {
  const auto found = recipe.form_overrides.find(layer);
  if (found != recipe.form_overrides.end()) return &found->second;
  return recipe.scheme ? &*recipe.scheme : nullptr;
}

std::vector<std::string> layers_outside_blocks(const Recipe& recipe) {
  std::vector<std::string> outside;
  for (const std::string& layer : recipe.layers)
    if (std::ranges::none_of(recipe.block_names,
                             [&](const std::string& block) { return layer.starts_with(block + "."); }))
      outside.push_back(layer);
  return outside;
}

void refuse_form_overrides(const Recipe& recipe, std::string_view reason) {
  if (recipe.form_overrides.empty()) return;
  const auto& [layer, form] = *recipe.form_overrides.begin();
  fail(ErrorKind::kInvalidInput, "layer '", layer, "' as ", describe(form), " beside others: ", reason);
}

}  // namespace quaver
