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
  int64_t group_rows = 1;            // rows that share a scale; n for per tensor
  bool has_zeros = false;            // integer zero points per group; else symmetric about 2^(bits-1)
  bool has_mins = false;             // real minima per group in their place: w = scale * code - min
  bool has_permutation = false;      // activation order
  // Multiply the float32 activations as they are. Otherwise a kernel may round them to 8 bits per row and
  // block of at most 128 channels, which is faster: |error of y| <= sum over k of |w_k| * max|x in k's block|
  // / 254.
  bool exact_activations = false;
};

// Borrowed scales or minima as they are stored, [ceil(n / group_rows), ceil(k / group)], row-major. All are
// finite.
struct ScaleView {
  ScaleCodec codec = ScaleCodec::kF32;
  const std::byte* codes = nullptr;  // null: there are none
  const float* super = nullptr;      // second level: one for every `share` entries in a row; null: none
  int64_t share = 1;
  bool divides = false;  // by the second level, rather than multiplying

  static ScaleView of(const float* scales) { return {.codes = reinterpret_cast<const std::byte*>(scales)}; }
  float at(int64_t index) const;  // in float32, as decode_scales of quant_weight.h
};

// Borrowed bytes of one weight, in the canonical layout of quant_weight.h.
struct WeightView {
  LinearProblem problem;
  std::span<const std::byte> codes;  // or the plain weight
  ScaleView scales;
  const uint8_t* zeros = nullptr;           // of the scales' shape, or null
  ScaleView mins;                           // of the scales' shape, or none
  const int32_t* permutation = nullptr;     // [k] or null: channel k belongs to group permutation[k] / group
  const float* input_multiplier = nullptr;  // [k] or null: what channel k of x is multiplied by first

  int64_t groups() const { return (problem.k + problem.group - 1) / problem.group; }
  // Where row `row` has the scale of group `group`.
  int64_t scale_index(int64_t row, int64_t group) const {
    return row / problem.group_rows * groups() + group;
  }
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
  const float* bias = nullptr;     // [n] or null
  std::byte* workspace = nullptr;  // workspace_bytes(problem, m), aligned to 64
  ThreadPool* pool = nullptr;      // null = this thread alone
};

// One of several weights that multiply the same x.
struct LinearPart {
  const LinearProblem* problem = nullptr;
  const Prepacked* weight = nullptr;
  float* y = nullptr;  // [m, n], rows y_stride apart
  int64_t y_stride = 0;
  const float* bias = nullptr;
};

struct LinearInput {
  const float* x = nullptr;  // [m, k], rows x_stride apart
  int64_t x_stride = 0;
  int64_t m = 0;
  std::byte* workspace = nullptr;  // the largest workspace_bytes of the parts, aligned to 64
  ThreadPool* pool = nullptr;      // null = this thread alone
};

// A row of x gives the same bits of y whatever m is, whatever stands beside it and whatever the number of
// threads: batched and single decoding must agree.
struct LinearKernel {
  const char* name;  // "w4a8_vnni"
  bool (*supports)(const LinearProblem&, const CpuFeatures&);
  std::unique_ptr<Prepacked> (*prepack)(const WeightView&);
  size_t (*workspace_bytes)(const LinearProblem&, int64_t m);
  // All parts were prepacked by this row and have equal k. Parts that want x prepared alike (equal group, no
  // permutation and no input multiplier) share one preparation and one parallel loop.
  void (*run_parts)(std::span<const LinearPart>, const LinearInput&);

  void run(const LinearProblem& problem, const Prepacked& weight, const LinearArgs& args) const {
    LinearPart part = {&problem, &weight, args.y, args.y_stride, args.bias};
    run_parts({&part, 1}, {args.x, args.x_stride, args.m, args.workspace, args.pool});
  }
};

// Best first, the scalar reference last.
std::span<const LinearKernel> linear_kernels();

// The first row that supports the problem. `QUAVER_KERNEL`, a comma-separated list of names, allows only
// those rows (Error(kUnsupported) when none of them can).
const LinearKernel& choose_linear_kernel(const LinearProblem& problem);
const LinearKernel& choose_linear_kernel(const LinearProblem& problem, const CpuFeatures& cpu);

}  // namespace quaver::kernels
