#include "diffusion/lora_names.h"

#include <algorithm>
#include <optional>

#include "base/cat.h"

namespace quaver::diffusion {

namespace {

// One row per spelling; a family's own come first.
constexpr std::array kCommonPrefixes = {
    LoraPrefix{"transformer.", "transformer"},        // diffusers
    LoraPrefix{"lora_transformer_", "transformer"},   // OneTrainer
    LoraPrefix{"lora_unet_", "transformer"},          // kohya
    LoraPrefix{"diffusion_model.", "transformer"},    // ComfyUI
    LoraPrefix{"base_model.model.", "transformer"},   // PEFT
    LoraPrefix{"text_encoder.", "text_encoder"},      // diffusers
    LoraPrefix{"text_encoder_2.", "text_encoder_2"},  //
    LoraPrefix{"text_encoder_3.", "text_encoder_3"},  //
    LoraPrefix{"lora_te_", "text_encoder"},           // kohya
    LoraPrefix{"lora_te1_", "text_encoder"},          //
    LoraPrefix{"lora_te2_", "text_encoder_2"},        //
    LoraPrefix{"lora_te3_", "text_encoder_3"},        //
    LoraPrefix{"text_encoders.", "text_encoder"},     // ComfyUI, where the family names none
    LoraPrefix{"", "transformer"},
};

constexpr std::string_view kTextModel = "text_model.";  // what some writers put around an encoder

std::string flat(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '.', '_');
  return out;
}

std::string numbered(std::string_view pattern, int64_t number) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return std::string(pattern);
  return cat(pattern.substr(0, star), number, pattern.substr(star + 1));
}

const models::NamedLinear* layer_called(const ComponentLinears& component, std::string_view name) {
  const auto it = std::ranges::find(component.linears, name, &models::NamedLinear::name);
  return it == component.linears.end() ? nullptr : &*it;
}

// Nothing where the model lacks one of the layers.
std::optional<LoraTarget> target_of(const ComponentLinears& component, const LoraAlias& alias,
                                    int64_t number) {
  LoraTarget target{.halves_swapped = alias.halves_swapped};
  for (const std::string_view pattern : alias.layers) {
    if (pattern.empty()) break;
    const models::NamedLinear* layer = layer_called(component, numbered(pattern, number));
    if (!layer) return std::nullopt;
    target.layers.push_back(*layer);
  }
  return target;
}

}  // namespace

LoraNames::LoraNames(const std::vector<ComponentLinears>& components, const LoraSpellings& spellings)
    : prefixes_(spellings.prefixes.begin(), spellings.prefixes.end()) {
  prefixes_.insert(prefixes_.end(), kCommonPrefixes.begin(), kCommonPrefixes.end());
  for (const ComponentLinears& component : components) {
    Targets& targets = components_[component.component];
    for (const models::NamedLinear& layer : component.linears) {
      targets[flat(layer.name)] = {.layers = {layer}};
      if (component.component == "transformer") continue;
      const bool inside = layer.name.starts_with(kTextModel);
      targets[flat(inside ? layer.name.substr(kTextModel.size()) : cat(kTextModel, layer.name))] = {
          .layers = {layer}};
    }
    if (component.component == "transformer") add_aliases(component, spellings.aliases);
  }
}

void LoraNames::add_aliases(const ComponentLinears& component, std::span<const LoraAlias> aliases) {
  Targets& targets = components_[component.component];
  for (const LoraAlias& alias : aliases) {
    const bool in_blocks = alias.name.find('*') != std::string_view::npos;
    for (int64_t number = 0;; ++number) {
      std::optional<LoraTarget> target = target_of(component, alias, number);
      if (!target) break;
      targets[flat(numbered(alias.name, number))] = std::move(*target);
      if (!in_blocks) break;
    }
  }
}

LoraNames::Found LoraNames::find(std::string_view layer) const {
  for (const LoraPrefix& row : prefixes_) {
    if (!layer.starts_with(row.prefix)) continue;
    Found found{.component = row.component};
    if (const auto component = components_.find(row.component); component != components_.end())
      if (const auto it = component->second.find(flat(layer.substr(row.prefix.size())));
          it != component->second.end())
        found.target = &it->second;
    return found;
  }
  return {};  // not reached: the last row takes every name
}

}  // namespace quaver::diffusion
