// A text encoder of a picture pipeline as a model of blocks.
#pragma once

#include <memory>
#include <vector>

#include "quantize/block_model.h"

namespace quaver::quantize {

// All that the pipeline's family reads prompts with, in its order. They see the captions of the transformer's
// calibration: as many as there are, up to `options.trajectory.samples`, each as it would be served.
std::vector<std::unique_ptr<BlockModel>> open_text_encoders(const BlockModelOptions& options);

}  // namespace quaver::quantize
