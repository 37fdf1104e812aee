// The cache's memory, the bookkeeping of a pass, and the kernel body.
#include "nn/paged_attention.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include "base/error.h"
#include "kernels/attention/attention.h"
#include "nn/kernel_path.h"
#include "nn/paged_attention_aten.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {
namespace {

// Rows may lie apart (a slice of a fused projection), but each must be contiguous float32.
at::Tensor dense_rows(const at::Tensor& x) {  // [tokens, heads, head_dim]
  bool dense = x.stride(2) == 1 && (x.size(1) == 1 || x.stride(1) == x.size(2));
  return dense ? x : x.contiguous();
}

}  // namespace

int64_t PagedCacheOptions::bytes_per_block() const {
  return 2 * num_layers * num_kv_heads * head_dim * block_size *
         static_cast<int64_t>(c10::elementSize(dtype));
}

PagedAttention::PagedAttention(const PagedCacheOptions& options) : options_(options) {
  auto layout = at::TensorOptions().dtype(options.dtype).device(options.device);
  for (int64_t i = 0; i < options.num_layers; ++i) {
    std::vector<int64_t> shape = {options.num_blocks, options.num_kv_heads, options.block_size,
                                  options.head_dim};
    // Uninitialised, so that on the CPU memory is only taken as blocks are used.
    layers_.push_back({at::empty(shape, layout), at::empty(shape, layout)});
  }
}

PagedAttention::~PagedAttention() = default;

void PagedAttention::begin(std::vector<PagedSequence> sequences) {
  sequences_ = std::move(sequences);
  slots_.clear();
  aten_step_.reset();
  for (const PagedSequence& sequence : sequences_) {
    int64_t covered = static_cast<int64_t>(sequence.blocks.size()) * options_.block_size;
    require(sequence.query_length >= 1 && sequence.query_length <= sequence.context_length &&
                sequence.context_length <= covered,
            ErrorKind::kInternal, "paged attention: ", sequence.query_length, " queries over ",
            sequence.context_length, " positions in blocks for ", covered);
    for (int32_t block : sequence.blocks)
      require(block >= 0 && block < options_.num_blocks, ErrorKind::kInternal, "paged attention: block ",
              block, " of ", options_.num_blocks);
    for (int64_t at = sequence.context_length - sequence.query_length; at < sequence.context_length; ++at)
      slots_.push_back(sequence.blocks[static_cast<size_t>(at / options_.block_size)] * options_.block_size +
                       at % options_.block_size);
  }
}

at::Tensor PagedAttention::attend(int64_t layer_index, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const AttentionParams& params) {
  require(q.size(0) == static_cast<int64_t>(slots_.size()) && k.size(1) == options_.num_kv_heads &&
              k.size(2) == options_.head_dim,
          ErrorKind::kInternal, "paged attention: ", q.size(0), " rows of ", k.size(1), " x ", k.size(2),
          " keys, expected ", slots_.size(), " of ", options_.num_kv_heads, " x ", options_.head_dim);
  if (params.kv_scaling && !holds_codes()) {
    AttentionParams rest = params;
    rest.kv_scaling.reset();
    return attend(layer_index, q, round_kv(k, params.kv_scaling->keys),
                  round_kv(v, params.kv_scaling->values), rest);
  }
  const Layer& layer = layers_.at(static_cast<size_t>(layer_index));
  if (kernels_apply(q, {&k, &v, &params.sinks})) return attend_with_kernels(layer, q, k, v, params);
  if (!aten_step_) aten_step_ = std::make_unique<AtenStep>(options_, sequences_, slots_);
  aten_step_->store(layer, k, v, params);
  return aten_step_->attend(layer, q, params);
}

at::Tensor PagedAttention::attend_with_kernels(const Layer& layer, const at::Tensor& q, const at::Tensor& k,
                                               const at::Tensor& v, const AttentionParams& params) const {
  at::Tensor queries = dense_rows(q), keys = dense_rows(k), values = dense_rows(v);
  kernels::KvCacheView cache{.keys = layer.keys.data_ptr(),
                             .values = layer.values.data_ptr(),
                             .dtype = dtype_of(options_.dtype),
                             .num_blocks = options_.num_blocks,
                             .kv_heads = options_.num_kv_heads,
                             .block_size = options_.block_size,
                             .head_dim = options_.head_dim};
  if (params.kv_scaling) {
    cache.key_scales = params.kv_scaling->keys.const_data_ptr<float>();
    cache.value_scales = params.kv_scaling->values.const_data_ptr<float>();
  }
  kernels::write_kv({.cache = cache,
                     .k = keys.const_data_ptr<float>(),
                     .k_stride = keys.stride(0),
                     .v = values.const_data_ptr<float>(),
                     .v_stride = values.stride(0),
                     .slots = slots_,
                     .pool = &global_thread_pool()});
  std::vector<kernels::AttentionSequence> sequences;
  int64_t start = 0;
  for (const PagedSequence& sequence : sequences_) {
    sequences.push_back({start, sequence.query_length, sequence.context_length, sequence.blocks.data()});
    start += sequence.query_length;
  }
  at::Tensor y = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
  kernels::paged_attention(
      {.shape = {q.size(1), params.scale, params.window, params.softcap, params.sinks_data()},
       .cache = cache,
       .q = queries.const_data_ptr<float>(),
       .q_stride = queries.stride(0),
       .y = y.mutable_data_ptr<float>(),
       .y_stride = y.stride(0),
       .sequences = sequences,
       .pool = &global_thread_pool()});
  return y;
}

}  // namespace quaver::nn
