#include "kernels/norm/norm.h"

#include <cmath>

#include "kernels/isa.h"
#include "kernels/norm/norm_row.h"
#include "kernels/parallel.h"

namespace quaver::kernels {

void rms_norm_row_scalar(const NormRow& row) {
  double sum = 0;
  const float* x = row.x;
  if (row.residual != nullptr) {
    for (int64_t i = 0; i < row.width; ++i) row.residual[i] += row.x[i];
    x = row.residual;
  }
  for (int64_t i = 0; i < row.width; ++i) sum += static_cast<double>(x[i]) * x[i];
  auto mean = static_cast<float>(sum / static_cast<double>(row.width));
  float inverse = 1.0f / std::sqrt(mean + row.epsilon);
  for (int64_t i = 0; i < row.width; ++i) {
    float normal = x[i] * inverse;
    row.y[i] = row.weight == nullptr ? normal : normal * (row.weight_offset + row.weight[i]);
  }
}

void rms_norm(const RmsNormArgs& args, const CpuFeatures& cpu) {
  auto* run_row = pick_isa(cpu, rms_norm_row_scalar, rms_norm_row_avx2, rms_norm_row_avx512);
  parallel_rows(args.pool, args.rows, row_grain(args.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      run_row({.x = args.x + r * args.x_stride,
               .y = args.y + r * args.y_stride,
               .weight = args.weight,
               .residual = args.residual ? args.residual + r * args.residual_stride : nullptr,
               .width = args.width,
               .epsilon = args.epsilon,
               .weight_offset = args.one_plus_weight ? 1.0f : 0.0f});
  });
}

}  // namespace quaver::kernels
