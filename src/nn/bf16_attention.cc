#include "nn/bf16_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "kernels/attention/softmax_bf16.h"
#include "nn/bf16_pointer.h"

namespace quaver::nn {

namespace {

constexpr int64_t kScoreElements = int64_t{1}
                                   << 18;  // of a piece: its scores and their gradient stay in cache

// [batch, length, kv_heads * n, head_dim] -> [batch, kv_heads, length * n, head_dim], contiguous.
at::Tensor by_kv_head(const at::Tensor& x, int64_t kv_heads) {
  int64_t batch = x.size(0), length = x.size(1), dim = x.size(3), n = x.size(2) / kv_heads;
  return x.reshape({batch, length, kv_heads, n, dim})
      .permute({0, 2, 1, 3, 4})
      .reshape({batch, kv_heads, length * n, dim});
}

// The way back.
at::Tensor by_token(const at::Tensor& x, int64_t length) {
  int64_t batch = x.size(0), kv_heads = x.size(1), n = x.size(2) / length, dim = x.size(3);
  return x.view({batch, kv_heads, length, n, dim})
      .permute({0, 2, 1, 3, 4})
      .reshape({batch, length, kv_heads * n, dim});
}

at::Tensor centred(const at::Tensor& k) {  // [batch, kv_heads, length, head_dim]
  at::Tensor wide = k.to(at::kFloat);
  return (wide - wide.mean(2, /*keepdim=*/true)).to(at::kBFloat16);
}

// A few queries of all heads that share one key head.
struct Piece {
  int64_t batch, head;          // which matrix of [batch, kv_heads]
  int64_t first_row, rows;      // of the query matrix
  int64_t first_key, num_keys;  // that the piece sees
  kernels::CausalRows causal;
};

struct Shape {
  int64_t batch, kv_heads, length, rows_per_query;
  float scale;
  int64_t window;

  int64_t queries_at_once() const {
    int64_t keys = window > 0 ? std::min(length, 2 * window) : length;
    return std::clamp<int64_t>(kScoreElements / (keys * rows_per_query), 1, length);
  }

  Piece piece(int64_t b, int64_t h, int64_t query, int64_t count) const {
    int64_t first_key = window > 0 ? std::max<int64_t>(0, query + 1 - window) : 0;
    int64_t keys = query + count - first_key;
    return {b,
            h,
            query * rows_per_query,
            count * rows_per_query,
            first_key,
            keys,
            {.rows = count * rows_per_query,
             .keys = keys,
             .first_query = query - first_key,
             .rows_per_query = rows_per_query,
             .window = window,
             .scale = scale,
             .pool = &global_thread_pool()}};
  }

  template <class Body>
  void for_each_piece(const Body& body) const {
    int64_t step = queries_at_once();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < kv_heads; ++h)
        for (int64_t query = 0; query < length; query += step)
          body(piece(b, h, query, std::min(step, length - query)));
  }
};

at::Tensor query_rows(const at::Tensor& x, const Piece& p) {  // [rows, head_dim]
  return x[p.batch][p.head].narrow(0, p.first_row, p.rows);
}
at::Tensor key_rows(const at::Tensor& x, const Piece& p) {  // [num_keys, head_dim]
  return x[p.batch][p.head].narrow(0, p.first_key, p.num_keys);
}

// Room for the scores of any piece.
class ScoreBuffer {
 public:
  explicit ScoreBuffer(const Shape& shape, const at::Tensor& like)
      : memory_(at::empty({shape.queries_at_once() * shape.rows_per_query * shape.length}, like.options())) {}
  at::Tensor of(const Piece& p) const {
    return memory_.narrow(0, 0, p.rows * p.num_keys).view({p.rows, p.num_keys});
  }

 private:
  at::Tensor memory_;
};

at::Tensor probabilities(const ScoreBuffer& buffer, const at::Tensor& q, const at::Tensor& k,
                         const Piece& p) {
  at::Tensor scores = buffer.of(p);
  at::mm_out(scores, query_rows(q, p), key_rows(k, p).t());
  kernels::causal_softmax_bf16(p.causal, mutable_bf16_bits(scores));
  return scores;
}

struct Bf16Attention : torch::autograd::Function<Bf16Attention> {
  // q [batch, kv_heads, length * rows_per_query, head_dim], k [batch, kv_heads, length, head_dim]
  static Shape shape_of(const at::Tensor& q, const at::Tensor& k, double scale, int64_t window) {
    return {q.size(0), q.size(1), k.size(2), q.size(2) / k.size(2), static_cast<float>(scale), window};
  }

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& queries,
                            const at::Tensor& keys, const at::Tensor& values, double scale, int64_t window) {
    int64_t kv_heads = keys.size(2), length = queries.size(1);
    at::Tensor q = by_kv_head(queries, kv_heads), k = centred(by_kv_head(keys, kv_heads)),
               v = by_kv_head(values, kv_heads), out = at::empty_like(q);
    Shape shape = shape_of(q, k, scale, window);
    ScoreBuffer buffer(shape, q);
    shape.for_each_piece([&](const Piece& p) {
      at::Tensor row = query_rows(out, p);
      at::mm_out(row, probabilities(buffer, q, k, p), key_rows(v, p));
    });
    context->save_for_backward({q, k, v});
    context->saved_data["scale"] = scale;
    context->saved_data["window"] = window;
    return by_token(out, length);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    Shape shape =
        shape_of(q, k, context->saved_data["scale"].toDouble(), context->saved_data["window"].toInt());
    at::Tensor dout = by_kv_head(gradients[0], shape.kv_heads);
    at::Tensor dq = at::empty_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
    ScoreBuffer first(shape, q), second(shape, q);
    shape.for_each_piece([&](const Piece& p) {
      at::Tensor weights = probabilities(first, q, k, p), dscores = second.of(p), rows = query_rows(dout, p);
      key_rows(dv, p).addmm_(weights.t(), rows);
      at::mm_out(dscores, rows, key_rows(v, p).t());
      kernels::causal_softmax_bf16_gradient(p.causal, bf16_bits(weights), mutable_bf16_bits(dscores));
      at::Tensor dq_rows = query_rows(dq, p);
      at::mm_out(dq_rows, dscores, key_rows(k, p));
      key_rows(dk, p).addmm_(dscores.t(), query_rows(q, p));
    });
    // Rows of dscores sum to zero, so the gradient passes through the centring of keys unchanged.
    return {by_token(dq, shape.length), by_token(dk, shape.length), by_token(dv, shape.length), {}, {}};
  }
};

}  // namespace

at::Tensor bf16_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionParams& params) {
  return Bf16Attention::apply(q, k, v, static_cast<double>(params.scale), params.window);
}

}  // namespace quaver::nn
