// How attention reaches keys and values: dense within a batch (tuning, evaluation) or paged (serving).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/kv_scaling.h"

namespace quaver::nn {

struct AttentionParams {
  float scale = 1.0f;
  int64_t window = 0;    // a query sees this many newest positions, itself included; 0 = all
  float softcap = 0.0f;  // 0 = none
  // float32 [heads], contiguous: a score per head that joins the softmax and stands for no value; undefined =
  // none.
  at::Tensor sinks = {};
  const float* sinks_data() const { return sinks.defined() ? sinks.const_data_ptr<float>() : nullptr; }
  std::optional<KvScaling> kv_scaling = {};  // keys and values are rounded so before anything sees them
};

// One per forward pass. Models call attend once per layer and know nothing of caches. Rows of all sequences
// are concatenated; causal within each sequence.
class AttentionContext {
 public:
  virtual ~AttentionContext() = default;
  virtual at::Tensor attend(int64_t layer,
                            const at::Tensor& q,                 // [tokens, heads, head_dim]
                            const at::Tensor& k,                 // [tokens, kv_heads, head_dim]
                            const at::Tensor& v,                 // [tokens, kv_heads, head_dim]
                            const AttentionParams& params) = 0;  // -> [tokens, heads, head_dim]
};

// Keys and values of this call only; differentiable. `lengths` are the sequences' token counts, in order.
class DenseAttention : public AttentionContext {
 public:
  explicit DenseAttention(std::vector<int64_t> lengths) : lengths_(std::move(lengths)) {}
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttentionParams& params) override;

 private:
  std::vector<int64_t> lengths_;
};

}  // namespace quaver::nn
