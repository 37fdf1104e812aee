// A language model as a model of blocks: its decoder layers over rows of embedded text.
#pragma once

#include <memory>

#include "quantize/block_model.h"

namespace quaver::quantize {

std::unique_ptr<BlockModel> open_language_model(const BlockModelOptions& options);

}  // namespace quaver::quantize
