#include "nn/group_norm.h"

#include <ATen/ops/group_norm.h>
#include <ATen/ops/silu.h>

namespace quaver::nn {

GroupNorm::GroupNorm(WeightSource& source, std::string_view prefix, int64_t channels, int64_t groups,
                     double eps)
    : weight_(source.tensor(cat(prefix, ".weight"), {channels})),
      bias_(source.tensor(cat(prefix, ".bias"), {channels})),
      groups_(groups),
      eps_(eps) {}

at::Tensor GroupNorm::forward(const at::Tensor& x) const {
  return at::group_norm(x, groups_, weight_, bias_, eps_);
}

at::Tensor GroupNorm::forward_silu(const at::Tensor& x) const {
  at::Tensor y = forward(x);
  return at::silu_(y);
}

}  // namespace quaver::nn
