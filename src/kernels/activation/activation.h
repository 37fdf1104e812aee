// Gated activations of an MLP: y = f(gate) * up.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace quaver::kernels {

// All borrowed; y may be gate or up. The vector versions stay within 4 ulp of f(gate) * up in exact
// arithmetic where the result is a normal number (tests/kernels/activation measures it).
struct GatedArgs {
  const float* gate = nullptr;  // [rows, width], rows gate_stride apart
  int64_t gate_stride = 0;
  const float* up = nullptr;  // [rows, width], rows up_stride apart
  int64_t up_stride = 0;
  float* y = nullptr;  // [rows, width], rows y_stride apart
  int64_t y_stride = 0;
  int64_t rows = 0, width = 0;
  ThreadPool* pool = nullptr;        // null = this thread alone
  float alpha = 1.0f, limit = 0.0f;  // of clamped_silu_mul alone
};

// f(x) = x / (1 + exp(-x)).
void silu_mul(const GatedArgs& args, const CpuFeatures& cpu = cpu_features());

// f(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
void gelu_tanh_mul(const GatedArgs& args, const CpuFeatures& cpu = cpu_features());

// y = g / (1 + exp(-alpha g)) * (u + 1), g = min(gate, limit), u = up cut to [-limit, limit].
void clamped_silu_mul(const GatedArgs& args, const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
