// RMS normalisation of rows, with or without adding a residual first.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

// y = x / sqrt(mean(x^2) + epsilon) * weight, in fp32; the weight multiplies last, as in Llama. All pointers
// are borrowed; y may be x. A row gives the same bits whatever the number of rows and threads.
struct RmsNormArgs {
  const float* x = nullptr;  // [rows, width], rows x_stride apart
  int64_t x_stride = 0;
  float* y = nullptr;  // [rows, width], rows y_stride apart
  int64_t y_stride = 0;
  const float* weight = nullptr;  // [width]; null = all ones
  int64_t rows = 0, width = 0;
  float epsilon = 1e-6f;
  bool one_plus_weight = false;  // multiply by 1 + weight (Gemma)
  // When set, residual += x comes first and the sum is what is normalised.
  float* residual = nullptr;  // [rows, width], rows residual_stride apart
  int64_t residual_stride = 0;
  ThreadPool* pool = nullptr;  // null = this thread alone
};

void rms_norm(const RmsNormArgs& args, const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
