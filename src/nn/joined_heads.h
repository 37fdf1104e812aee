// Queries or keys of several streams of tokens, ready for one attention over all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "nn/norm.h"
#include "nn/rope.h"

namespace quaver::nn {

// One stream's queries or keys as its layer gave them, and the norm over each head. Borrows the norm.
struct StreamHeads {
  at::Tensor x;  // [batch, tokens, heads, head_dim]
  const RmsNorm* norm = nullptr;
};

// The streams one after the other, heads normalized, pairs (2 j, 2 j + 1) turned by the angles of their
// tokens. Where the values of a pair then stand is the same for queries and keys of one size and device, and
// may differ between devices: only their products are to be used.
at::Tensor joined_heads(const std::vector<StreamHeads>& streams,
                        const RopeAngles& angles);  // of all tokens -> [batch, all tokens, heads, head_dim]

}  // namespace quaver::nn
