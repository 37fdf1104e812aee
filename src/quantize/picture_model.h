// The transformer of a picture pipeline as a model of blocks.
#pragma once

#include <memory>

#include "quantize/block_model.h"

namespace quaver::quantize {

std::unique_ptr<BlockModel> open_picture_model(const BlockModelOptions& options);

}  // namespace quaver::quantize
