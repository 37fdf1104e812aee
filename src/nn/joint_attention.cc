#include "nn/joint_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <span>

namespace quaver::nn {

namespace {

// Who holds what around one attention: some tokens of all heads outside, all tokens of some heads inside.
struct Exchange {
  const RankGroup& ranks;
  const std::vector<int64_t>& tokens;  // of each rank
  std::vector<int64_t> heads;          // of each rank

  int64_t own(const std::vector<int64_t>& of) const { return of[static_cast<size_t>(ranks.rank())]; }

  // What is divided now is then joined, and the other way round. One part from each rank.
  std::vector<at::Tensor> swapped(const at::Tensor& x,  // [divided now, batch, own, n]
                                  const std::vector<int64_t>& divided,
                                  const std::vector<int64_t>& joined) const {
    const int64_t batch = x.size(1), n = x.size(3);
    std::vector<int64_t> send, receive;
    for (size_t r = 0; r < divided.size(); ++r) {
      send.push_back(divided[r] * batch * own(joined));
      receive.push_back(own(divided) * batch * joined[r]);
    }
    std::vector<at::Tensor> parts =
        ranks.all_to_all(x.reshape({-1, n}), send, receive).split_with_sizes(receive);
    for (size_t r = 0; r < parts.size(); ++r) parts[r] = parts[r].view({own(divided), batch, joined[r], n});
    return parts;
  }

  at::Tensor to_heads(const at::Tensor& x) const {                       // [batch, own tokens, heads, n]
    return at::cat(swapped(x.permute({2, 0, 1, 3}), heads, tokens), 2);  // [own heads, batch, tokens, n]
  }
  at::Tensor to_tokens(const at::Tensor& x) const {                      // [batch, own heads, tokens, n]
    return at::cat(swapped(x.permute({2, 0, 1, 3}), tokens, heads), 2);  // [own tokens, batch, heads, n]
  }
};

}  // namespace

at::Tensor joint_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  at::Tensor mixed =
      at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2));
  return mixed.transpose(1, 2).flatten(2);
}

at::Tensor joint_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const TokenRanks& ranks) {
  if (!ranks.ranks) return joint_attention(q, k, v);
  const Exchange exchange{*ranks.ranks, ranks.tokens, even_split(q.size(2), ranks.ranks->size())};
  const std::vector<at::Tensor> qkv = exchange.to_heads(at::cat({q, k, v}, -1)).transpose(0, 1).chunk(3, -1);
  at::Tensor mixed =
      at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);  // [batch, own heads, tokens, n]
  return exchange.to_tokens(mixed).transpose(0, 1).flatten(2);
}

}  // namespace quaver::nn
