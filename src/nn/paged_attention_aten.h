// The ATen body of paged attention: index, gather, scaled dot products.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "nn/paged_attention.h"

namespace quaver::nn {

// A forward pass as index tensors on the device. Sequences of one row form one group, every other a group of
// its own, so a decode step is a fixed number of calls.
struct PagedAttention::AtenStep {
  struct Group {
    at::Tensor rows;       // int64 [batch * queries], rows of q
    at::Tensor table;      // int64 [batch * blocks]
    at::Tensor positions;  // int64 [batch, 1, queries, 1], of the queries
    int64_t batch = 0, queries = 0, blocks = 0;
    std::map<int64_t, at::Tensor> visible;  // by window: bool [batch, 1, queries, blocks * block_size]
    at::Tensor unwritten;                   // bool [batch, 1, blocks * block_size, 1]
  };

  AtenStep(const PagedCacheOptions& options, const std::vector<PagedSequence>& sequences,
           const std::vector<int64_t>& slots);
  void store(const Layer& layer, const at::Tensor& k, const at::Tensor& v,
             const AttentionParams& params) const;
  at::Tensor attend(const Layer& layer, const at::Tensor& q, const AttentionParams& params);

 private:
  void add_group(const std::vector<PagedSequence>& sequences, const std::vector<int64_t>& starts,
                 const std::vector<size_t>& members);
  at::Tensor attend_group(Group& group, const Layer& layer, const at::Tensor& q,
                          const AttentionParams& params) const;
  at::Tensor gather(const Group& group, const at::Tensor& cache, const at::Tensor& scales,
                    at::ScalarType dtype) const;
  const at::Tensor& visible(Group& group, int64_t window) const;

  const PagedCacheOptions& options_;
  at::Tensor block_of_, place_of_;  // int64 [rows]
  std::vector<Group> groups_;
};

}  // namespace quaver::nn
