#include "nn/relative_bias.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <utility>

namespace quaver::nn {

at::Tensor relative_buckets(int64_t tokens, int64_t buckets, int64_t max_distance) {
  const int64_t half = buckets / 2, exact = half / 2;
  at::Tensor ahead = at::arange(1 - tokens, tokens, at::kLong), distance = ahead.abs();
  const double octaves = std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  at::Tensor widening =
      at::log(distance.to(at::kFloat) / exact) / octaves * (half - exact);  // -inf at 0, not taken
  at::Tensor far = (widening.clamp(0, half - exact - 1).to(at::kLong) + exact);
  return at::where(distance.lt(exact), distance, far) + ahead.gt(0).to(at::kLong) * half;
}

RelativeBias::RelativeBias(at::Tensor table, int64_t max_distance)
    : table_(std::move(table)), max_distance_(max_distance) {}

at::Tensor RelativeBias::forward(int64_t tokens) const {
  at::Tensor buckets = relative_buckets(tokens, table_.size(0), max_distance_).to(table_.device());
  at::Tensor by_distance = table_.index_select(0, buckets).t();  // [heads, 2 * tokens - 1]
  // A query's row is a window of it, and the first query's is the last one.
  return by_distance.unfold(1, tokens, 1).flip(1).unsqueeze(0);
}

at::Tensor biased_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& bias) {
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias,
                                          /*dropout_p=*/0.0, /*is_causal=*/false, /*scale=*/1.0)
      .transpose(1, 2);
}

}  // namespace quaver::nn
