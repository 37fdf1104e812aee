// A text encoder's block as a models::DecoderBlock.
#pragma once

#include <memory>

#include "models/llm/causal_lm.h"
#include "models/text_encoder/text_encoder.h"

namespace quaver::quantize {

// Takes rows of prompts of `tokens` tokens each; `context` is that of every prompt.
std::unique_ptr<models::DecoderBlock> as_row_block(std::unique_ptr<models::TextBlock> block,
                                                   const models::TextContext& context, int64_t tokens);

}  // namespace quaver::quantize
