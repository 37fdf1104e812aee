// Causal attention over a paged key/value cache, or over dense rows, for prefill and decoding alike.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "numerics/dtype.h"

namespace quaver::kernels {

// Keys and values of one layer: [num_blocks, kv_heads, block_size, head_dim] of f32, f16, bf16 or e4m3fn. In
// e4m3fn a value is its code times the scale of its kv head.
struct KvCacheView {
  void* keys = nullptr;
  void* values = nullptr;
  DType dtype = DType::kF16;
  int64_t num_blocks = 0, kv_heads = 0, block_size = 0, head_dim = 0;
  const float* key_scales = nullptr;  // [kv_heads]; null = 1
  const float* value_scales = nullptr;

  float key_scale(int64_t head) const { return key_scales ? key_scales[head] : 1.0f; }
  float value_scale(int64_t head) const { return value_scales ? value_scales[head] : 1.0f; }
};

// One sequence's share of a call. Its queries are the newest `query_length` of its `context_length`
// positions.
struct AttentionSequence {
  int64_t query_start = 0;               // row of its first query in q and y
  int64_t query_length = 0;              // queries of this call
  int64_t context_length = 0;            // positions to see, the queries' own included
  const int32_t* block_table = nullptr;  // [ceil(context_length / block_size)] block numbers
};

struct AttentionShape {
  int64_t heads = 0;     // a multiple of the cache's kv_heads; head h reads kv head h / (heads / kv_heads)
  float scale = 1.0f;    // of q k^T
  int64_t window = 0;    // a query sees this many newest positions, itself included; 0 = all
  float softcap = 0.0f;  // s -> softcap * tanh(s / softcap); 0 = none
  // [heads] a score per head that joins the softmax and stands for no value; null = none
  const float* sinks = nullptr;
};

// All borrowed. A query gives the same bits whatever other sequences are in the call, however its prompt was
// cut into calls, and whatever the number of threads.
struct PagedAttentionArgs {
  AttentionShape shape;
  KvCacheView cache;         // already holds the keys and values of the queries
  const float* q = nullptr;  // [tokens, heads, head_dim], tokens q_stride apart
  int64_t q_stride = 0;
  float* y = nullptr;  // [tokens, heads, head_dim], tokens y_stride apart
  int64_t y_stride = 0;
  std::span<const AttentionSequence> sequences;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

void paged_attention(const PagedAttentionArgs& args, const CpuFeatures& cpu = cpu_features());

// The same without a cache: sequence i owns the rows lengths[0] + ... + lengths[i-1] on.
struct DenseAttentionArgs {
  AttentionShape shape;
  int64_t kv_heads = 0, head_dim = 0;
  const float* q = nullptr;  // [tokens, heads, head_dim], contiguous
  const float* k = nullptr;  // [tokens, kv_heads, head_dim], contiguous
  const float* v = nullptr;  // [tokens, kv_heads, head_dim], contiguous
  float* y = nullptr;        // [tokens, heads, head_dim], contiguous
  std::span<const int64_t> lengths;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

void dense_attention(const DenseAttentionArgs& args, const CpuFeatures& cpu = cpu_features());

// Stores new rows in the cache: token t goes to block slots[t] / block_size, place slots[t] % block_size; a
// negative slot is left out. Values round to nearest, ties to even; what e4m3fn can't reach becomes its
// largest.
struct WriteKvArgs {
  KvCacheView cache;
  const float* k = nullptr;  // [tokens, kv_heads, head_dim], tokens k_stride apart
  int64_t k_stride = 0;
  const float* v = nullptr;  // [tokens, kv_heads, head_dim], tokens v_stride apart
  int64_t v_stride = 0;
  std::span<const int64_t> slots;  // [tokens]
  ThreadPool* pool = nullptr;      // null = this thread alone
};

void write_kv(const WriteKvArgs& args, const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
