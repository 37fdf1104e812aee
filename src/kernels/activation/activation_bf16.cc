#include "kernels/activation/activation_bf16.h"

#include <cmath>

#include "kernels/activation/gated_bf16_row.h"
#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

constexpr int64_t kGrain = 8192;  // elements worth handing to another thread

struct Value {
  double f, slope;
};

// f(x) = x L(u) with L the logistic function: u = x for silu; for gelu, u = 2 sqrt(2 / pi) (x + 0.044715
// x^3). So f' = L + x L (1 - L) u'.
Value gate_value(GateFunction function, double x) {
  constexpr double kTwice = 1.59576912160573071176;
  bool silu = function == GateFunction::kSilu;
  double u = silu ? x : kTwice * (x + 0.044715 * x * x * x);
  double du = silu ? 1 : kTwice * (1 + 3 * 0.044715 * x * x);
  double logistic = 1 / (1 + std::exp(-u));
  return {x * logistic, logistic + x * logistic * (1 - logistic) * du};
}

void run(const GatedBf16Args& args, const GatedBf16Row& whole, const CpuFeatures& cpu) {
  auto* run_row = pick_isa(cpu, gated_bf16_row_scalar, gated_bf16_row_avx2, gated_bf16_row_avx512);
  parallel_rows(args.pool, args.count, kGrain, [&](int64_t begin, int64_t end) {
    auto at = [&](auto* p) { return p ? p + begin : p; };
    run_row({args.function, at(args.gate), at(args.up), at(whole.dy), at(whole.y), at(whole.dgate),
             at(whole.dup), end - begin});
  });
}

}  // namespace

void gated_bf16_row_scalar(const GatedBf16Row& row) {
  for (int64_t i = 0; i < row.width; ++i) {
    Value value = gate_value(row.function, bf16_to_float(row.gate[i]));
    float f = static_cast<float>(value.f), up = bf16_to_float(row.up[i]);
    if (!row.dy) {
      row.y[i] = float_to_bf16(bf16_to_float(float_to_bf16(f)) * up);
      continue;
    }
    float dy = bf16_to_float(row.dy[i]);
    row.dgate[i] = float_to_bf16(dy * up * static_cast<float>(value.slope));
    row.dup[i] = float_to_bf16(dy * f);
  }
}

void gated_bf16(const GatedBf16Args& args, uint16_t* y, const CpuFeatures& cpu) { run(args, {.y = y}, cpu); }

void gated_bf16_gradient(const GatedBf16Args& args, const uint16_t* dy, uint16_t* dgate, uint16_t* dup,
                         const CpuFeatures& cpu) {
  run(args, {.dy = dy, .dgate = dgate, .dup = dup}, cpu);
}

}  // namespace quaver::kernels
