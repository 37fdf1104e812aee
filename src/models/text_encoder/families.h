// The constructors that the table of text encoders lists; each family's file defines its own.
#pragma once

#include <memory>

#include "models/text_encoder/text_encoder.h"

namespace quaver::models {

std::unique_ptr<TextEncoder> make_clip_text(nn::WeightSource& source);
std::unique_ptr<TextEncoder> make_clip_text_projected(nn::WeightSource& source);
std::unique_ptr<TextEncoder> make_t5_encoder(nn::WeightSource& source);
std::unique_ptr<TextEncoder> make_umt5_encoder(nn::WeightSource& source);
std::unique_ptr<TextEncoder> make_qwen3_body(nn::WeightSource& source);

}  // namespace quaver::models
