#include "quantize/block_model.h"

#include <iterator>

#include "base/error.h"
#include "checkpoint/diffusers_folder.h"
#include "quantize/language_model.h"
#include "quantize/picture_model.h"
#include "quantize/text_encoder_model.h"

namespace quaver::quantize {

std::vector<std::unique_ptr<BlockModel>> open_block_models(const BlockModelOptions& options,
                                                           bool with_text_encoders) {
  const bool is_pipeline = DiffusersFolder::is(options.path);
  require(is_pipeline || !with_text_encoders, ErrorKind::kInvalidInput, options.path,
          ": makes text and has no text encoders; leave --quantize_text_encoder out");
  std::vector<std::unique_ptr<BlockModel>> models;
  models.push_back(is_pipeline ? open_picture_model(options) : open_language_model(options));
  if (!with_text_encoders) return models;
  std::vector<std::unique_ptr<BlockModel>> encoders = open_text_encoders(options);
  std::ranges::move(encoders, std::back_inserter(models));
  return models;
}

}  // namespace quaver::quantize
