// What a format must be told of layers that are quantized already.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "formats/format.h"

namespace quaver::quantize {

// Modules with a matrix of their own that stays plain, and the head even where it has none: what formats list
// as not converted. `quantized` are layers by name.
std::vector<std::string> plain_modules(const Checkpoint& checkpoint,
                                       const std::vector<std::string>& quantized, const std::string& head);

// Names of the tensors that scale what `attention` ("model.layers.0.self_attn") caches; none without a
// format.
std::set<std::string> cache_tensors(const Checkpoint& checkpoint, const Format* format,
                                    const std::string& attention);

// Names of the tensors that go away with a quantized layer.
std::set<std::string> tensors_of_layer(const Checkpoint& checkpoint, const Format& format,
                                       const std::string& layer);

// The form of one layer without its values: element, storage, group, scales, activation.
WeightScheme form_of(const QuantWeight& weight);
// False where that leaves something unsaid: a second level of more scales than one, minima that are real
// numbers.
bool form_says_all(const QuantWeight& weight);

// Collects the forms of all layers and says them in one recipe.
class RecipeOfLayers {
 public:
  void add(const std::string& layer, const QuantWeight& weight);
  // The most frequent form is the base; others become overrides. Precondition: a layer was added.
  Recipe recipe() const;

 private:
  struct Layer {
    std::string name;
    WeightScheme form;
    Extent2d shape;
  };
  const Layer& most_frequent() const;
  Extent2d whole_tile(Extent2d tile) const;

  std::vector<Layer> layers_;
};

}  // namespace quaver::quantize
