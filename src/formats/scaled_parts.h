// The tensors of one layer by what they are for, and the extents that follow from them.
#pragma once

#include <array>

#include "formats/scaled_layer.h"

namespace quaver {

class ScaledParts {
 public:
  // Error(kBadFile) when two tensors claim the same part.
  ScaledParts(const Checkpoint& checkpoint, std::string_view layer);
  // Those that a plan names.
  ScaledParts(const Checkpoint& checkpoint, const LayerPlan& plan);

  const TensorInfo* operator[](Part part) const { return parts_[static_cast<size_t>(part)]; }
  std::vector<std::string> names() const;
  // "model.safetensors: tensor 'x.weight'". Precondition: the part exists.
  std::string where(Part part) const;
  // "model.safetensors: layer 'x' (weight, weight_scale)". Precondition: there are codes.
  std::string layer_where() const;

  // Logical [out, in] of the codes stored this way. Error(kBadFile) when the tensor can't be that.
  Extent2d shape(CodeStorage storage, int bits) const;
  // The scheme's group with the whole extents filled in.
  static Extent2d group_of(const WeightScheme& scheme, Extent2d shape);

 private:
  void add(const std::string& name, Part part);

  const Checkpoint& checkpoint_;
  std::string layer_;
  std::array<const TensorInfo*, 9> parts_{};
};

// Words that hold `count` codes: as a dense stream, or with whole codes in each word as older files have it.
int64_t dense_words(int64_t count, int bits);
int64_t padded_words(int64_t count, int bits);

}  // namespace quaver
