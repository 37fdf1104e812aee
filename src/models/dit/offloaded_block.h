// A block of a diffusion transformer whose weights are on the device only while it runs.
#pragma once

#include <memory>

#include "models/dit/dit.h"
#include "nn/offload.h"

namespace quaver::models {

// Borrows `layers`, which every block of the model goes into, in the order in which they run.
std::unique_ptr<DitBlock> offloaded(std::unique_ptr<DitBlock> block, nn::LayerOffload& layers);

}  // namespace quaver::models
