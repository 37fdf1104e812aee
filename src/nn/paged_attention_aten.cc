// Gathers each sequence's blocks and attends over them with ATen; the reference, and the body on
// accelerators.
#include "nn/paged_attention_aten.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "nn/explicit_attention.h"

namespace quaver::nn {
namespace {

at::Tensor index_tensor(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong)).to(device);
}

}  // namespace

PagedAttention::AtenStep::AtenStep(const PagedCacheOptions& options,
                                   const std::vector<PagedSequence>& sequences,
                                   const std::vector<int64_t>& slots)
    : options_(options) {
  at::Tensor slot = index_tensor(slots, options.device);
  block_of_ = slot.div(options.block_size, "floor");
  place_of_ = slot.remainder(options.block_size);
  std::vector<int64_t> starts;
  std::vector<size_t> single;
  int64_t start = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    starts.push_back(start);
    start += sequences[i].query_length;
    if (sequences[i].query_length == 1) single.push_back(i);
  }
  if (!single.empty()) add_group(sequences, starts, single);
  for (size_t i = 0; i < sequences.size(); ++i)
    if (sequences[i].query_length > 1) add_group(sequences, starts, {i});
}

void PagedAttention::AtenStep::add_group(const std::vector<PagedSequence>& sequences,
                                         const std::vector<int64_t>& starts,
                                         const std::vector<size_t>& members) {
  Group group{.batch = static_cast<int64_t>(members.size()), .queries = sequences[members[0]].query_length};
  auto blocks_of = [&](size_t i) { return (sequences[i].context_length - 1) / options_.block_size + 1; };
  for (size_t i : members) group.blocks = std::max(group.blocks, blocks_of(i));
  std::vector<int64_t> rows, table, positions, contexts;
  for (size_t i : members) {
    const PagedSequence& sequence = sequences[i];
    for (int64_t row = 0; row < group.queries; ++row) {
      rows.push_back(starts[i] + row);
      positions.push_back(sequence.context_length - group.queries + row);
    }
    for (int64_t b = 0; b < group.blocks; ++b)  // the first block stands in where there is none; it is masked
      table.push_back(sequence.blocks[static_cast<size_t>(b < blocks_of(i) ? b : 0)]);
    contexts.push_back(sequence.context_length);
  }
  group.rows = index_tensor(rows, options_.device);
  group.table = index_tensor(table, options_.device);
  group.positions = index_tensor(positions, options_.device).view({group.batch, 1, group.queries, 1});
  at::Tensor keys = at::arange(group.blocks * options_.block_size, group.rows.options()).view({1, 1, -1, 1});
  group.unwritten = keys.ge(index_tensor(contexts, options_.device).view({group.batch, 1, 1, 1}));
  groups_.push_back(std::move(group));
}

void PagedAttention::AtenStep::store(const Layer& layer, const at::Tensor& k, const at::Tensor& v,
                                     const AttentionParams& params) const {
  const KvScaling scaling = params.kv_scaling.value_or(KvScaling{});
  auto put = [&](const at::Tensor& cache, const at::Tensor& rows, const at::Tensor& scales) {
    if (options_.dtype != at::kFloat8_e4m3fn)
      cache.transpose(1, 2).index_put_({block_of_, place_of_}, rows.to(options_.dtype));
    else  // the codes are moved as bytes: few operations know their type
      cache.view(at::kByte).transpose(1, 2).index_put_({block_of_, place_of_},
                                                       kv_codes(rows, scales).view(at::kByte));
  };
  put(layer.keys, k, scaling.keys);
  put(layer.values, v, scaling.values);
}

at::Tensor PagedAttention::AtenStep::attend(const Layer& layer, const at::Tensor& q,
                                            const AttentionParams& params) {
  if (groups_.size() == 1) return attend_group(groups_[0], layer, q, params);
  at::Tensor y = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
  for (Group& group : groups_)
    y.index_copy_(0, group.rows, attend_group(group, layer, q.index_select(0, group.rows), params));
  return y;
}

// Query heads that share a key head become further queries of it, so keys and values need no copies.
at::Tensor PagedAttention::AtenStep::attend_group(Group& group, const Layer& layer, const at::Tensor& q,
                                                  const AttentionParams& params) const {
  int64_t kv_heads = options_.num_kv_heads, repeat = q.size(1) / kv_heads, head_dim = q.size(2);
  at::Tensor queries = q.view({group.batch, group.queries, kv_heads, repeat, head_dim})
                           .permute({0, 2, 3, 1, 4})
                           .reshape({group.batch, kv_heads, repeat * group.queries, head_dim});
  const KvScaling scaling = params.kv_scaling.value_or(KvScaling{});
  at::Tensor keys = gather(group, layer.keys, scaling.keys, q.scalar_type());
  at::Tensor values = gather(group, layer.values, scaling.values, q.scalar_type());
  at::Tensor mask = visible(group, params.window);
  if (group.queries > 1) mask = mask.repeat({1, 1, repeat, 1});
  at::Tensor y = needs_explicit_attention(params)
                     ? explicit_attention(queries, keys, values, mask, params)
                     : at::scaled_dot_product_attention(queries, keys, values, mask, /*dropout_p=*/0.0,
                                                        /*is_causal=*/false, params.scale);
  return y.view({group.batch, kv_heads, repeat, group.queries, head_dim})
      .permute({0, 3, 1, 2, 4})
      .reshape({group.batch * group.queries, q.size(1), head_dim});
}

at::Tensor PagedAttention::AtenStep::gather(const Group& group, const at::Tensor& cache,
                                            const at::Tensor& scales, at::ScalarType dtype) const {
  int64_t kv_heads = options_.num_kv_heads, head_dim = options_.head_dim;
  const bool codes = options_.dtype == at::kFloat8_e4m3fn;
  at::Tensor rows = (codes ? cache.view(at::kByte) : cache)
                        .index_select(0, group.table)
                        .view({group.batch, group.blocks, kv_heads, options_.block_size, head_dim})
                        .permute({0, 2, 1, 3, 4})
                        .reshape({group.batch, kv_heads, group.blocks * options_.block_size, head_dim});
  rows = codes ? kv_values(rows.view(at::kFloat8_e4m3fn), scales, dtype) : rows.to(dtype);
  return rows.masked_fill(group.unwritten, 0);  // a weight of zero does not hide another sequence's NaN
}

const at::Tensor& PagedAttention::AtenStep::visible(Group& group, int64_t window) const {
  at::Tensor& mask = group.visible[window];
  if (mask.defined()) return mask;
  at::Tensor keys =
      at::arange(group.blocks * options_.block_size, group.positions.options()).view({1, 1, 1, -1});
  at::Tensor age = group.positions - keys;
  mask = age.ge(0);
  if (window > 0) mask = mask.logical_and(age.lt(window));
  return mask;
}

}  // namespace quaver::nn
