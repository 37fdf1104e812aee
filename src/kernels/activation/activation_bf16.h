// Gated activations of bf16 rows and their gradients: what tuning runs, where inference takes activation.h.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

enum class GateFunction { kSilu, kGeluTanh };

// All [count], borrowed. The functions are those of activation.h.
struct GatedBf16Args {
  GateFunction function = GateFunction::kSilu;
  const uint16_t* gate = nullptr;
  const uint16_t* up = nullptr;
  int64_t count = 0;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

// y = bf16(bf16(f(gate)) * up), the roundings of two operations one after the other.
void gated_bf16(const GatedBf16Args& args, uint16_t* y, const CpuFeatures& cpu = cpu_features());

// dgate = dy up f'(gate), dup = dy f(gate); fp32 inside, rounded once.
void gated_bf16_gradient(const GatedBf16Args& args, const uint16_t* dy, uint16_t* dgate, uint16_t* dup,
                         const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
