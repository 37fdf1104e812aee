// Looks token ids up in a table of rows.
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// Precondition: every id is within the table. The table may be of another floating dtype than the result.
at::Tensor embedding(const at::Tensor& table,        // [vocab, hidden]
                     const at::Tensor& token_ids,    // int64 [tokens]
                     at::ScalarType compute_dtype);  // -> [tokens, hidden]

}  // namespace quaver::nn
