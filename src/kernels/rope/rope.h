// Rotary position embedding in the rotate-half form, in place.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

// For i < rotary_dim / 2 the pair (x[i], x[i + rotary_dim / 2]) of every head turns by its token's angle i:
// (a, b) -> (a cos - b sin, b cos + a sin). Channels from rotary_dim on stay. Call once for q and once for k.
struct RopeArgs {
  float* x = nullptr;  // [tokens, heads, head_dim], tokens token_stride apart
  int64_t token_stride = 0;
  int64_t tokens = 0, heads = 0, head_dim = 0;
  int64_t rotary_dim = 0;              // even, at most head_dim
  const float* cos = nullptr;          // [positions, rotary_dim / 2]
  const float* sin = nullptr;          // [positions, rotary_dim / 2]
  const int64_t* positions = nullptr;  // [tokens]; each a row of the tables
  ThreadPool* pool = nullptr;          // null = this thread alone
};

void apply_rope(const RopeArgs& args, const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
