// Processes that compute one model together: c10d's collectives as models call them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace quaver::nn {

// `total` in `parts` that differ by one at most, the larger ones first.
std::vector<int64_t> even_split(int64_t total, int64_t parts);

// The ranks of one group, numbered from 0. Every rank calls the same functions in the same order with
// agreeing shapes and dtypes; tensors live on the group's device. A function throws Error(kUnavailable) when
// another rank has gone or the group was aborted; the group is of no use from then on.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  // The sum of what the ranks bring, the same bits on every rank.
  virtual at::Tensor all_reduce(const at::Tensor& x) const = 0;
  // Rank `root`'s x in every rank's x, in place.
  virtual void broadcast(at::Tensor& x, int64_t root) const = 0;
  // The ranks' parts one after the other along `dim`; sizes[r] is the extent of rank r's part there.
  virtual at::Tensor all_gather(const at::Tensor& part, int64_t dim,
                                std::span<const int64_t> sizes) const = 0;
  // Along the first dimension: send[r] rows of x go to rank r, in order; receive[r] rows come from rank r.
  virtual at::Tensor all_to_all(const at::Tensor& x, std::span<const int64_t> send,
                                std::span<const int64_t> receive) const = 0;
  // Returns when the result of the last collective is there, which GPUs compute on their own time. Throws as
  // the others do, also when that takes longer than the group's timeout.
  virtual void settle() const = 0;
  // From any thread: whoever waits in a collective throws.
  virtual void abort() = 0;
};

}  // namespace quaver::nn
