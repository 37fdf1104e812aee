// The table of ways to multiply activations by a (quantized) weight matrix: y = x W^T.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "numerics/dtype.h"
#include "numerics/element.h"

namespace quaver::kernels {

// What is to be multiplied, without saying who wrote it. Activations and results are float32 rows.
struct LinearProblem {
  int64_t n = 0, k = 0;  // W is [n, k]
  bool quantized = false;
  DType plain = DType::kF32;         // of the weight when not quantized: f32, bf16 or f16
  Element element = Element::kInt4;  // of the codes when quantized
  int64_t group = 0;                 // input channels that share a scale; k for per channel
  bool has_zeros = false;            // integer zero points per group; else symmetric about 2^(bits-1)
  bool has_permutation = false;      // activation order
};

// Borrowed bytes of one weight, in the canonical layout of quant_weight.h. Scales are already float32
// [n, ceil(k / group)]; zeros uint8 of the same shape or null; permutation int32 [k] or null.
struct WeightView {
  LinearProblem problem;
  std::span<const std::byte> codes;  // or the plain weight
  const float* scales = nullptr;
  const uint8_t* zeros = nullptr;
  const int32_t* permutation = nullptr;
};

// A weight in one kernel's own layout. Immutable, shareable.
class Prepacked {
 public:
  virtual ~Prepacked() = default;
  virtual size_t size_bytes() const = 0;
};

struct LinearArgs {
  const float* x = nullptr;  // [m, k], rows x_stride apart
  int64_t x_stride = 0;
  float* y = nullptr;  // [m, n], rows y_stride apart
  int64_t y_stride = 0;
  int64_t m = 0;
  const float* bias = nullptr;  // [n] or null
  std::byte* workspace = nullptr;
  ThreadPool* pool = nullptr;
};

// A row of x gives the same bits of y whatever m is: batched and single decoding must agree.
struct LinearKernel {
  const char* name;  // "w4a8_vnni_rows16"
  bool (*supports)(const LinearProblem&, const CpuFeatures&);
  std::unique_ptr<Prepacked> (*prepack)(const WeightView&);
  size_t (*workspace_bytes)(const LinearProblem&, int64_t m);
  void (*run)(const LinearProblem&, const Prepacked&, const LinearArgs&);
};

// Best first, the scalar reference last.
std::span<const LinearKernel> linear_kernels();

// The first row that supports the problem; `QUAVER_KERNEL` forces one by name (Error(kUnsupported) when it
// can't).
const LinearKernel& choose_linear_kernel(const LinearProblem& problem);

}  // namespace quaver::kernels
