// Which layers of a model the layers of a LoRA file stand for: writers spell names in many ways.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diffusion/prompt.h"

namespace quaver::diffusion {

// What stands in front of the names of one component's layers.
struct LoraPrefix {
  std::string_view prefix, component;
};

// A layer by the name of a model's first release, and what has become of it.
struct LoraAlias {
  std::string_view name;  // "*" is the number of a block
  // By checkpoint name, the same "*": of several each has its part of the rows, in this order. Empty behind
  // the last.
  std::array<std::string_view, 4> layers;
  bool halves_swapped = false;  // the two halves of the rows stand the other way round
};

// What a family of models adds to the spellings that all have.
struct LoraSpellings {
  std::span<const LoraPrefix> prefixes;
  std::span<const LoraAlias> aliases;  // of the transformer
};

struct LoraTarget {
  std::vector<models::NamedLinear> layers;  // over one input
  bool halves_swapped = false;
};

// Immutable; borrows the layers.
class LoraNames {
 public:
  LoraNames(const std::vector<ComponentLinears>& components, const LoraSpellings& spellings);

  struct Found {
    std::string_view component;          // the one that the name's prefix speaks of
    const LoraTarget* target = nullptr;  // null: it has no such layer, or isn't there at all
  };
  // `layer` as a file has it: "transformer.transformer_blocks.0.attn.to_q", "lora_unet_img_in".
  Found find(std::string_view layer) const;

 private:
  using Targets = std::map<std::string, LoraTarget, std::less<>>;
  void add_aliases(const ComponentLinears& component, std::span<const LoraAlias> aliases);

  std::vector<LoraPrefix> prefixes_;
  // By component, then by name; underscores stand for dots, as half of the writers have it.
  std::map<std::string, Targets, std::less<>> components_;
};

}  // namespace quaver::diffusion
