#include "quantize/block_model.h"

#include "checkpoint/diffusers_folder.h"
#include "quantize/language_model.h"
#include "quantize/picture_model.h"

namespace quaver::quantize {

std::unique_ptr<BlockModel> open_block_model(const BlockModelOptions& options) {
  return DiffusersFolder::is(options.path) ? open_picture_model(options) : open_language_model(options);
}

}  // namespace quaver::quantize
