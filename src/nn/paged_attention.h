// Attention over a paged KV cache, for serving: the cache itself, and the context that models call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nn/attention_context.h"

namespace quaver::nn {

struct PagedCacheOptions {
  int64_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  int64_t num_blocks = 0, block_size = 16;  // tokens per block
  at::ScalarType dtype = at::kBFloat16;     // float32, float16, bfloat16 or float8_e4m3fn
  at::Device device = at::kCPU;

  int64_t bytes_per_block() const;  // keys and values of all layers
};

// One sequence's share of a forward pass.
struct PagedSequence {
  int64_t query_length = 0;         // rows of this pass: the newest positions of the context
  int64_t context_length = 0;       // positions to see, those of this pass included
  std::span<const int32_t> blocks;  // borrowed until the pass ends; covers the context
};

// Owns the cache. begin() says which sequences the next forward pass holds, in the order of their rows;
// attend() then stores the new keys and values and reads the rest from the cache, so a position is always
// seen in the cache's precision, however a prompt was cut. A cache of float8_e4m3fn holds codes under the
// layer's KvScaling (1 where it has none); in a wider one keys and values are rounded so first.
//
// Two bodies: kernels (float32 activations on the CPU, where a sequence's result does not depend on its
// neighbours), else an ATen expression. Not thread safe. Violated preconditions are Error(kInternal).
class PagedAttention : public AttentionContext {
 public:
  explicit PagedAttention(const PagedCacheOptions& options);
  ~PagedAttention() override;

  const PagedCacheOptions& options() const { return options_; }
  void begin(std::vector<PagedSequence> sequences);
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionParams& params) override;

  struct Layer {
    at::Tensor keys, values;  // [blocks, kv_heads, block_size, head_dim]
  };

 private:
  bool holds_codes() const { return options_.dtype == at::kFloat8_e4m3fn; }
  at::Tensor attend_with_kernels(const Layer& layer, const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v, const AttentionParams& params) const;

  struct AtenStep;  // the pass as index tensors; made when the ATen body first needs it
  PagedCacheOptions options_;
  std::vector<Layer> layers_;
  std::vector<PagedSequence> sequences_;
  std::vector<int64_t> slots_;  // place in the cache of each row
  std::unique_ptr<AtenStep> aten_step_;
};

}  // namespace quaver::nn
