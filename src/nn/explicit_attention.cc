#include "nn/explicit_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>

#include <limits>

#include "nn/precision.h"

namespace quaver::nn {

namespace {

// One more column of scores.
at::Tensor with_sinks(const at::Tensor& scores, const at::Tensor& sinks) {  // [batch, groups, rows, keys]
  int64_t batch = scores.size(0), groups = scores.size(1), rows = scores.size(2);
  int64_t heads = sinks.size(0) / groups;  // of a group
  at::Tensor column = sinks.to(scores.scalar_type())
                          .view({1, groups, heads, 1})
                          .expand({batch, groups, heads, rows / heads})
                          .reshape({batch, groups, rows, 1});
  return at::cat({scores, column}, -1);
}

}  // namespace

at::Tensor explicit_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& visible, const AttentionParams& params) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * params.scale;
  if (params.softcap != 0) scores = at::tanh(scores / params.softcap) * params.softcap;
  scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<float>::infinity());
  if (params.sinks.defined()) scores = with_sinks(scores, params.sinks);
  at::Tensor weights = at::softmax(scores, -1, at_least_float(scores)).narrow(-1, 0, k.size(2));
  return at::matmul(weights.to(q.scalar_type()), v);
}

}  // namespace quaver::nn
