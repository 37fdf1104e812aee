// Rotary position embedding of bf16 heads, into a copy: what tuning runs, where inference takes rope.h.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

// The rotation of rope.h in fp32, rounded once; by the negative angle when `backwards`, which is its
// gradient. All borrowed.
struct RopeBf16Args {
  const uint16_t* x = nullptr;  // [tokens, heads, head_dim], tokens x_stride apart
  int64_t x_stride = 0;
  uint16_t* y = nullptr;  // [tokens, heads, head_dim], contiguous
  int64_t tokens = 0, heads = 0, head_dim = 0;
  int64_t rotary_dim = 0;      // even, at most head_dim
  const float* cos = nullptr;  // [tokens, rotary_dim / 2]
  const float* sin = nullptr;  // [tokens, rotary_dim / 2]
  bool backwards = false;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

void apply_rope_bf16(const RopeBf16Args& args, const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
