#include "nn/attention_context.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/attention/attention.h"
#include "nn/bf16_attention.h"
#include "nn/explicit_attention.h"
#include "nn/kernel_path.h"

namespace quaver::nn {

namespace {

// True where a query may look: not ahead, and not further back than the window.
at::Tensor visible(int64_t length, int64_t window, at::Device device) {
  at::Tensor index = at::arange(length, at::TensorOptions().dtype(at::kLong).device(device));
  at::Tensor age = index.unsqueeze(1) - index.unsqueeze(0);  // query - key
  at::Tensor mask = age.ge(0);
  return window > 0 ? mask.logical_and(age.lt(window)) : mask;
}

// Key and value heads repeated so that each query head has its own.
at::Tensor spread(const at::Tensor& kv, int64_t heads) {  // [batch, kv_heads, length, head_dim]
  int64_t repeat = heads / kv.size(1);
  if (repeat == 1) return kv;
  auto sizes = kv.sizes();
  return kv.unsqueeze(2)
      .expand({sizes[0], sizes[1], repeat, sizes[2], sizes[3]})
      .reshape({sizes[0], heads, sizes[2], sizes[3]});
}

// Sequences of one length. [batch, length, heads, head_dim] -> the same.
at::Tensor attend_equal(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttentionParams& params) {
  int64_t heads = q.size(2), length = q.size(1);
  bool fused = !needs_explicit_attention(params);
  if (fused && bf16_kernels_apply(q)) return bf16_attention(q, k, v, params);
  at::Tensor queries = q.transpose(1, 2), keys = spread(k.transpose(1, 2), heads);
  at::Tensor values = spread(v.transpose(1, 2), heads);
  if (!fused)
    return explicit_attention(queries, keys, values, visible(length, params.window, q.device()), params)
        .transpose(1, 2);
  bool windowed = params.window > 0 && params.window < length;
  std::optional<at::Tensor> mask;
  if (windowed) mask = visible(length, params.window, q.device());
  return at::scaled_dot_product_attention(queries, keys, values, mask, /*dropout_p=*/0.0,
                                          /*is_causal=*/!windowed, params.scale)
      .transpose(1, 2);
}

at::Tensor attend_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const std::vector<int64_t>& lengths, const AttentionParams& params) {
  at::Tensor queries = q.contiguous(), keys = k.contiguous(), values = v.contiguous(),
             y = at::empty_like(queries);
  kernels::dense_attention({.shape = {.heads = q.size(1),
                                      .scale = params.scale,
                                      .window = params.window,
                                      .softcap = params.softcap,
                                      .sinks = params.sinks_data()},
                            .kv_heads = k.size(1),
                            .head_dim = q.size(2),
                            .q = queries.const_data_ptr<float>(),
                            .k = keys.const_data_ptr<float>(),
                            .v = values.const_data_ptr<float>(),
                            .y = y.mutable_data_ptr<float>(),
                            .lengths = lengths,
                            .pool = &global_thread_pool()});
  return y;
}

}  // namespace

at::Tensor DenseAttention::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const AttentionParams& params) {
  if (const auto& scaling = params.kv_scaling) {
    AttentionParams rest = params;
    rest.kv_scaling.reset();
    return attend(layer, q, round_kv(k, scaling->keys), round_kv(v, scaling->values), rest);
  }
  int64_t total = std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0});
  require(total == q.size(0), ErrorKind::kInternal, "attention lengths sum to ", total, ", rows are ",
          q.size(0));
  if (kernels_apply(q, {&k, &v, &params.sinks})) return attend_kernel(q, k, v, lengths_, params);
  auto part = [](const at::Tensor& x, int64_t start, int64_t batch, int64_t length) {
    return x.narrow(0, start, batch * length).reshape({batch, length, x.size(1), x.size(2)});
  };
  auto run = [&](int64_t start, int64_t batch, int64_t length) {
    return attend_equal(part(q, start, batch, length), part(k, start, batch, length),
                        part(v, start, batch, length), params)
        .reshape({batch * length, q.size(1), v.size(2)});
  };
  if (std::adjacent_find(lengths_.begin(), lengths_.end(), std::not_equal_to<>()) == lengths_.end())
    return run(0, static_cast<int64_t>(lengths_.size()), lengths_.empty() ? 0 : lengths_.front());
  std::vector<at::Tensor> parts;
  int64_t start = 0;
  for (int64_t length : lengths_) {
    parts.push_back(run(start, 1, length));
    start += length;
  }
  return at::cat(parts, 0);
}

}  // namespace quaver::nn
