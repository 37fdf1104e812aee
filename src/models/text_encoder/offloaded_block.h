// A block of a text encoder whose weights are on the device only while it runs.
#pragma once

#include <memory>

#include "models/text_encoder/text_encoder.h"
#include "nn/offload.h"

namespace quaver::models {

// Borrows `layers`, which every block of the encoder goes into, in the order in which they run.
std::unique_ptr<TextBlock> offloaded(std::unique_ptr<TextBlock> block, nn::LayerOffload& layers);

}  // namespace quaver::models
