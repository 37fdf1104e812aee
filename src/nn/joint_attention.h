// Attention of every token to every token: what diffusion transformers do over text and picture together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "nn/rank_group.h"

namespace quaver::nn {

// softmax(q k^T / sqrt(head_dim)) v, no mask.
at::Tensor joint_attention(const at::Tensor& q,   // [batch, tokens, heads, head_dim]
                           const at::Tensor& k,   // the same
                           const at::Tensor& v);  // the same -> [batch, tokens, heads * head_dim]

// How the ranks of a group divide the tokens of one pass. Borrows the group.
struct TokenRanks {
  const RankGroup* ranks = nullptr;  // null: one rank holds them all
  std::vector<int64_t> tokens;       // of each rank
};

// The same where each rank holds some tokens of all heads: for the attention the ranks exchange, so that each
// holds all tokens of some heads ("Ulysses", Jacobs et al. 2023, arXiv:2309.14509). Neither tokens nor heads
// need divide evenly. Keys stand rank by rank, which a softmax doesn't see; positions must be in q and k
// already. Precondition: at least as many heads as ranks.
at::Tensor joint_attention(const at::Tensor& q,  // [batch, tokens of this rank, heads, head_dim]
                           const at::Tensor& k, const at::Tensor& v,
                           const TokenRanks& ranks);  // -> [batch, tokens of this rank, heads * head_dim]

}  // namespace quaver::nn
