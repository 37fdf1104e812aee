// How a GGUF names and arranges a decoder's tensors, in terms of the Hugging Face names that models load by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf.h"
#include "models/gguf_architectures.h"

namespace quaver::models {

// One tensor under its Hugging Face name, and what must be done to the stored values.
struct GgufTensorSource {
  std::string name;         // "model.layers.0.self_attn.q_proj.weight"
  std::string stored_name;  // "blk.0.attn_q.weight"
  std::vector<int64_t> shape;
  int64_t expert = -1;            // slice of a stack of experts; -1: the whole tensor
  int64_t interleaved_heads = 0;  // rows of each head lie as pairs (j, j + d/2); 0: in order
  bool plus_one = false;          // norm weights are stored with 1 added
};

// Sorted by name. Error(kUnsupported) names a tensor that has no place in the model.
std::vector<GgufTensorSource> name_gguf_tensors(const GgufFile& file);

// Where a model's tensor goes: the reverse.
struct GgufPlace {
  std::string stored_name;
  int64_t expert = -1;       // its place in a stack of experts; -1: it is no part of one
  bool interleaved = false;  // rows of each head are stored as pairs (j, j + d/2)
  bool plus_one = false;     // norm weights are stored with 1 added
  bool is_key = false;       // of an interleaved tensor: its heads are those of the keys
};

// By the name under which `model.` and `lm_head.` begin; nothing when the architecture has no place for it.
std::optional<GgufPlace> gguf_place(const GgufArchitecture& architecture, std::string_view name);

}  // namespace quaver::models
