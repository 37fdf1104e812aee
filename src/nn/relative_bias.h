// Attention whose scores depend on the distance of query and key through a learned table
// (T5: Raffel et al., arXiv 1910.10683, section 2.1).
#pragma once

#include <ATen/core/Tensor.h>

namespace quaver::nn {

// The bucket of each distance key - query, from 1 - tokens to tokens - 1. Half of the buckets are for keys
// ahead. Of either half, the first half is one bucket per distance; the rest widens logarithmically and ends
// at `max_distance`, beyond which all distances share the last bucket. In float32, as models are trained with
// it. Preconditions: buckets is a multiple of 4, max_distance > buckets / 4.
at::Tensor relative_buckets(int64_t tokens, int64_t buckets,
                            int64_t max_distance);  // -> int64 [2 * tokens - 1], on the CPU

// Immutable.
class RelativeBias {
 public:
  RelativeBias(at::Tensor table,  // [buckets, heads]
               int64_t max_distance);

  // What is added to the scores of attention.
  at::Tensor forward(int64_t tokens) const;  // -> [1, heads, tokens (queries), tokens (keys)]

 private:
  at::Tensor table_;
  int64_t max_distance_;
};

// softmax(q k^T + bias) v: no scale, every token sees every token.
at::Tensor biased_attention(const at::Tensor& q,      // [batch, tokens, heads, head_dim]
                            const at::Tensor& k,      // the same
                            const at::Tensor& v,      // the same
                            const at::Tensor& bias);  // [1, heads, tokens, tokens]
                                                      // -> [batch, tokens, heads, head_dim]

}  // namespace quaver::nn
