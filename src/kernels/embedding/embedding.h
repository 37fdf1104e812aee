// Embedding look-up: rows of a plain or quantized table as float32.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/linear/kernel.h"

namespace quaver::kernels {

// Precondition: every id is in [0, table.problem.n); the caller has checked what came from outside.
struct EmbeddingArgs {
  WeightView table;  // [n, k]: plain f32, bf16, f16, or integer codes of 2 to 8 bits without minima
  std::span<const int32_t> ids;
  float* y = nullptr;  // [ids, k], rows y_stride apart
  int64_t y_stride = 0;
  float multiplier = 1.0f;     // of every element (Gemma scales its embeddings)
  ThreadPool* pool = nullptr;  // null = this thread alone
};

void gather_rows(const EmbeddingArgs& args);

}  // namespace quaver::kernels
