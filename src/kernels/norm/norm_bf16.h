// RMS normalisation of bf16 rows and its gradient: what tuning runs, where inference takes norm.h.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

// With n = x / sqrt(mean(x^2) + epsilon), in fp32: y = bf16(bf16(n) * weight), as Llama's modules round, or
// y = bf16(n * weight) when round_first is off. All borrowed; rows are contiguous.
struct RmsNormBf16Args {
  const uint16_t* x = nullptr;    // [rows, width]
  const float* weight = nullptr;  // [width]
  int64_t rows = 0, width = 0;
  float epsilon = 1e-6f;
  bool round_first = true;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

void rms_norm_bf16(const RmsNormBf16Args& args, uint16_t* y, const CpuFeatures& cpu = cpu_features());

// The gradient with respect to x, in fp32 and rounded once: dx = (g - n mean(g n)) / rms with g = dy weight.
// The weight gets none: tuning leaves norms as they are.
void rms_norm_bf16_gradient(const RmsNormBf16Args& args, const uint16_t* dy, uint16_t* dx,
                            const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
