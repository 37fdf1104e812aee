// A diffusion transformer's blocks as a tuner sees them: both streams and the condition in one row.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/dit/dit.h"
#include "models/llm/causal_lm.h"

namespace quaver::quantize {

// A row is the text's tokens, the picture's, then the condition, all of one width. So the loss of a block
// covers both streams, and not the condition, which stands last and passes through.
at::Tensor dit_rows(const models::DitState& state,
                    const models::DitContext& context);  // -> [batch, text + image + 1, width]

// Such a block over such rows. `rope` is that of every row; the first `text_tokens` are the text's.
std::unique_ptr<models::DecoderBlock> as_row_block(std::unique_ptr<models::DitBlock> block,
                                                   const nn::RopeAngles& rope, int64_t text_tokens);

}  // namespace quaver::quantize
