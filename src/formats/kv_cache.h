// What a checkpoint says about quantizing the key and value cache, and the scales it brings for each
// attention layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "numerics/element.h"

namespace quaver {

struct KvNames {
  const char *k, *v;
};

// Scales come with the checkpoint unless `dynamic`.
struct KvCacheQuant {
  Element element = Element::kE4M3FN;
  bool per_head = false;  // one scale per key-value head; else one per layer
  bool dynamic = false;
};

// One number for the keys and one for the values.
struct KvPair {
  float k = 0, v = 0;
};

// Both as float32 tensors of this shape, under these names of the attention layer.
std::vector<NamedTensor> pack_kv_scales(std::string_view attention, const KvPair& scales,
                                        const KvNames& names, const std::vector<int64_t>& shape);

// Multipliers on reading: value = code * scale. One entry, or one per key-value head; empty where the file
// has none.
struct KvScales {
  std::vector<float> k, v;
  std::vector<std::string> tensors;  // every name that was read, to be counted as used
};

// Scales of one attention layer ("model.layers.0.self_attn") under any of the names in use: `k_scale`,
// `v_scale` of the layer or of its k_proj and v_proj, `output_scale` or `output_quantizer.scale` of these, or
// one `kv_scale` for both. Error(kBadFile) naming file and tensor for a wrong dtype, a scale that is not
// positive and finite, a part without its counterpart, or two tensors for one part.
KvScales read_kv_scales(const Checkpoint& checkpoint, std::string_view attention);

// True when any layer brings such a scale.
bool has_kv_scales(const Checkpoint& checkpoint);

}  // namespace quaver
