// Checks token ids before they index an embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace quaver::models {

// Error(kInvalidInput) names an id outside the vocabulary. Ids on other devices pass: reading them would wait
// for the device, and there the caller has checked.
void check_token_ids(const at::Tensor& ids,  // int64, of any shape
                     int64_t vocab_size);

}  // namespace quaver::models
