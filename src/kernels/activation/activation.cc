#include "kernels/activation/activation.h"

#include <algorithm>
#include <cmath>

#include "kernels/activation/gated_row.h"
#include "kernels/isa.h"
#include "kernels/parallel.h"

namespace quaver::kernels {
namespace {

void run_rows(const GatedArgs& args, void (*run_row)(const GatedRow&)) {
  parallel_rows(args.pool, args.rows, row_grain(args.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      run_row({args.gate + r * args.gate_stride, args.up + r * args.up_stride, args.y + r * args.y_stride,
               args.width, args.alpha, args.limit});
  });
}

}  // namespace

void silu_row_scalar(const GatedRow& row) {
  for (int64_t i = 0; i < row.width; ++i) {
    double x = row.gate[i];
    row.y[i] = static_cast<float>(x / (1.0 + std::exp(-x))) * row.up[i];
  }
}

void gelu_row_scalar(const GatedRow& row) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  for (int64_t i = 0; i < row.width; ++i) {
    double x = row.gate[i];
    double u = kSqrtTwoOverPi * (x + 0.044715 * x * x * x);
    row.y[i] = static_cast<float>(x / (1.0 + std::exp(-2.0 * u))) * row.up[i];  // (1 + tanh u) / 2
  }
}

void clamped_silu_row_scalar(const GatedRow& row) {
  for (int64_t i = 0; i < row.width; ++i) {
    double gate = std::min<double>(row.gate[i], row.limit);
    double up = std::clamp<double>(row.up[i], -row.limit, row.limit);
    row.y[i] = static_cast<float>(gate / (1.0 + std::exp(-row.alpha * gate)) * (up + 1.0));
  }
}

void silu_mul(const GatedArgs& args, const CpuFeatures& cpu) {
  run_rows(args, pick_isa(cpu, silu_row_scalar, silu_row_avx2, silu_row_avx512));
}

void gelu_tanh_mul(const GatedArgs& args, const CpuFeatures& cpu) {
  run_rows(args, pick_isa(cpu, gelu_row_scalar, gelu_row_avx2, gelu_row_avx512));
}

void clamped_silu_mul(const GatedArgs& args, const CpuFeatures& cpu) {
  run_rows(args, pick_isa(cpu, clamped_silu_row_scalar, clamped_silu_row_avx2, clamped_silu_row_avx512));
}

}  // namespace quaver::kernels
