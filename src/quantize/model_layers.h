// The layers of a model that a quantizer may touch, before any of them is read.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "models/dit/dit.h"
#include "models/llm/causal_lm.h"
#include "models/text_encoder/text_encoder.h"
#include "quantize/scheme.h"

namespace quaver::quantize {

// Linear layers of all blocks by full name, in the blocks' order; routers are not among them. Builds the
// blocks from shapes and dtypes alone: no weight is read. Error(kBadFile) names a tensor that is missing or
// of another shape. Precondition: the checkpoint is plain.
std::vector<LayerShape> quantizable_layers(const models::CausalLm& shell, const Checkpoint& checkpoint);
std::vector<LayerShape> quantizable_layers(const models::Dit& shell, const Checkpoint& checkpoint);
std::vector<LayerShape> quantizable_layers(const models::TextEncoder& shell, const Checkpoint& checkpoint);

// The head, which lies outside the blocks. Error(kInvalidInput) where it is tied to the embedding.
LayerShape head_layer(const models::CausalLm& shell, const Checkpoint& checkpoint);

}  // namespace quaver::quantize
