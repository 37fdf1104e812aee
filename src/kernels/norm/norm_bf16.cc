#include "kernels/norm/norm_bf16.h"

#include <cmath>

#include "kernels/isa.h"
#include "kernels/norm/norm_bf16_row.h"
#include "kernels/parallel.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

float round_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

void run_rows(const RmsNormBf16Args& args, const uint16_t* dy, uint16_t* out, const CpuFeatures& cpu) {
  auto* run_row = pick_isa(cpu, norm_bf16_row_scalar, norm_bf16_row_avx2, norm_bf16_row_avx512);
  parallel_rows(args.pool, args.rows, row_grain(args.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      run_row({.x = args.x + r * args.width,
               .weight = args.weight,
               .dy = dy ? dy + r * args.width : nullptr,
               .out = out + r * args.width,
               .width = args.width,
               .epsilon = args.epsilon,
               .round_first = args.round_first});
  });
}

}  // namespace

void norm_bf16_row_scalar(const NormBf16Row& row) {
  double squares = 0, along = 0;  // along: sum of g n
  for (int64_t i = 0; i < row.width; ++i) {
    double x = bf16_to_float(row.x[i]);
    squares += x * x;
    if (row.dy) along += static_cast<double>(bf16_to_float(row.dy[i])) * row.weight[i] * x;
  }
  auto width = static_cast<double>(row.width);
  auto inverse = static_cast<float>(1.0 / std::sqrt(squares / width + row.epsilon));
  auto mean = static_cast<float>(along * inverse / width);
  for (int64_t i = 0; i < row.width; ++i) {
    float normal = bf16_to_float(row.x[i]) * inverse;
    float value = row.dy ? inverse * (bf16_to_float(row.dy[i]) * row.weight[i] - normal * mean)
                         : (row.round_first ? round_bf16(normal) : normal) * row.weight[i];
    row.out[i] = float_to_bf16(value);
  }
}

void rms_norm_bf16(const RmsNormBf16Args& args, uint16_t* y, const CpuFeatures& cpu) {
  run_rows(args, nullptr, y, cpu);
}

void rms_norm_bf16_gradient(const RmsNormBf16Args& args, const uint16_t* dy, uint16_t* dx,
                            const CpuFeatures& cpu) {
  run_rows(args, dy, dx, cpu);
}

}  // namespace quaver::kernels
