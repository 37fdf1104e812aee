// Turns a scheduled batch into tensors and calls the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llm/scheduler.h"
#include "models/llm/causal_lm.h"
#include "nn/paged_attention.h"

namespace quaver::llm {

// A block of rows of logits in host memory, float32.
struct LogitRows {
  at::Tensor tensor;  // [rows, vocab], contiguous
  int64_t rows() const { return tensor.defined() ? tensor.size(0) : 0; }
  std::span<const float> row(int64_t index) const;
};

// Owns the KV cache, shares the model. Knows nothing of queues. Not thread safe.
class Runner {
 public:
  Runner(std::shared_ptr<const models::CausalLm> model, const nn::PagedCacheOptions& cache);

  // Computes the batch's tokens and stores their keys and values. The result holds until the next call.
  void forward(const Batch& batch);

  // Logits of some rows of the last forward pass; rows are numbered in the order of the batch.
  LogitRows logits(std::span<const int64_t> rows) const;

 private:
  std::shared_ptr<const models::CausalLm> model_;
  at::Device device_;
  nn::PagedAttention attention_;
  at::Tensor hidden_;  // [tokens, hidden]
};

}  // namespace quaver::llm
