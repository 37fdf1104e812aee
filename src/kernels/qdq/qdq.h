// Fused fake quantization with learned rounding and ranges, forward and backward.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "numerics/dtype.h"

namespace quaver::kernels {

// The integer schemes of AutoRound. Every row of w is cut into groups of `group` columns; a short last group
// counts as padded with zeros. alpha and beta are taken clamped to [0, range_limit]; m- = min(0, min w), m+ =
// max(0, max w).
//   symmetric, M = 2^(bits-1): a = -m- alpha, c = m+ beta, s = f16(c < a ? a / M : -c / M), |s| at least
//   f16(1e-5),
//     q = clamp(rne(w / s + V), -M, M - 1), w_hat = s q
//   asymmetric, Q = 2^bits - 1: s = max(f16((m+ beta - m- alpha) / Q), f16(1e-5)), z = rne(-m- alpha / s),
//     q = clamp(rne(w / s + V) + z, 0, Q), w_hat = s (q - z)
//     zero_from_one: where z comes out as 0, s takes Q - 1 for Q and z is 1
// rne rounds ties to even. The formulas are those of the published method; tests/golden/kernels holds its
// results.
struct QdqScheme {
  int bits = 4;         // 2 to 8
  int64_t group = 128;  // columns; at least 1
  bool symmetric = true;
  bool zero_from_one = false;  // asymmetric zero points stay in [1, Q], for files that store z - 1
  float range_limit = 1.0f;    // largest alpha and beta; above 1, a range may grow beyond the weights'
};

// All borrowed. rows x cols matrices are contiguous; per-group arrays are [rows, ceil(cols / group)].
struct QdqArgs {
  QdqScheme scheme;
  int64_t rows = 0, cols = 0;
  const void* w = nullptr;  // f32 or bf16
  DType w_dtype = DType::kF32;
  void* v = nullptr;  // f32 or bf16; null = all zeros (forward only)
  DType v_dtype = DType::kF32;
  float* alpha = nullptr;  // null = all ones (forward only)
  float* beta = nullptr;   // null = all ones (forward only)
  ThreadPool* pool = nullptr;
};

struct QdqOutput {
  void* w_hat = nullptr;  // f32 or bf16; null = not wanted
  DType dtype = DType::kF32;
  // Of every group and element, for packing; null = not wanted.
  float* scale = nullptr;    // s, exactly an f16 value
  float* zero = nullptr;     // z; symmetric: M
  uint8_t* codes = nullptr;  // [rows, cols] unsigned codes; symmetric: q + M
};

// Reads v, alpha and beta and writes `out`.
void qdq_forward(const QdqArgs& args, const QdqOutput& out, const CpuFeatures& cpu = cpu_features());

// What to do with the gradient of a loss L with respect to w_hat.
struct QdqGradient {
  const void* dw_hat = nullptr;  // [rows, cols], f32 or bf16
  DType dtype = DType::kF32;
  // Gradients by the straight-through rules, for tests and other optimisers; null = not wanted.
  float* dv = nullptr;      // [rows, cols]
  float* dalpha = nullptr;  // per group
  float* dbeta = nullptr;   // per group
  // The sign step p <- p - rate * sign(gradient), sign(0) = 0, on v, alpha and beta where the rate is not 0.
  // alpha and beta are clamped before the step, as the forward pass saw them.
  float v_rate = 0.0f;
  float range_rate = 0.0f;
};

// dV = dw_hat s [in range]; ds = sum dw_hat (q - z - [in range] w / s), plus what passes through z for
// clamped elements; equal a and c share their gradient half and half; the f16 rounding passes gradients, the
// floor of |s| does not. Gradients are in fp32. Reads v, alpha and beta as of the forward pass and then
// updates them.
void qdq_backward(const QdqArgs& args, const QdqGradient& gradient, const CpuFeatures& cpu = cpu_features());

}  // namespace quaver::kernels
