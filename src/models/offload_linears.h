// Hands a block's layers over to what keeps their weights in host memory.
#pragma once

#include "models/named_linear.h"
#include "nn/offload.h"

namespace quaver::models {

// The block's number there. Its other tensors (norms, biases, tables of distances) are small and stay on the
// device.
template <class Block>
int64_t offload_linears(Block& block, nn::LayerOffload& layers) {
  return layers.add([&](const nn::TensorVisit& visit) {
    for (const NamedLinear& layer : block.linears()) layer.linear->visit_tensors(visit);
  });
}

}  // namespace quaver::models
