#include "kernels/attention/softmax_bf16.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/softmax_bf16_row.h"
#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

void forward_row(const SoftmaxBf16Row& row) {
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t i = row.begin; i < row.end; ++i) top = std::max(top, row.scale * bf16_to_float(row.values[i]));
  double sum = 0;
  for (int64_t i = row.begin; i < row.end; ++i) {
    row.scratch[i] = std::exp(row.scale * bf16_to_float(row.values[i]) - top);
    sum += row.scratch[i];
  }
  auto inverse = static_cast<float>(1 / sum);
  for (int64_t i = row.begin; i < row.end; ++i) row.values[i] = float_to_bf16(row.scratch[i] * inverse);
}

void gradient_row(const SoftmaxBf16Row& row) {
  double along = 0;
  for (int64_t i = row.begin; i < row.end; ++i)
    along += static_cast<double>(bf16_to_float(row.values[i])) * bf16_to_float(row.probabilities[i]);
  for (int64_t i = row.begin; i < row.end; ++i) {
    float difference = bf16_to_float(row.values[i]) - static_cast<float>(along);
    row.values[i] = float_to_bf16(row.scale * bf16_to_float(row.probabilities[i]) * difference);
  }
}

void run(const CausalRows& rows, uint16_t* values, const uint16_t* probabilities, const CpuFeatures& cpu) {
  auto* run_row = pick_isa(cpu, softmax_bf16_row_scalar, softmax_bf16_row_avx2, softmax_bf16_row_avx512);
  parallel_rows(rows.pool, rows.rows, row_grain(rows.keys), [&](int64_t first, int64_t last) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<size_t>(rows.keys));
    for (int64_t r = first; r < last; ++r) {
      int64_t end = std::min(rows.keys, rows.first_query + r / rows.rows_per_query + 1);
      int64_t begin = rows.window > 0 ? std::max<int64_t>(0, end - rows.window) : 0;
      uint16_t* row = values + r * rows.keys;
      std::fill(row, row + begin, uint16_t{0});
      std::fill(row + end, row + rows.keys, uint16_t{0});
      run_row({row, probabilities ? probabilities + r * rows.keys : nullptr, scratch.data(), begin, end,
               rows.scale});
    }
  });
}

}  // namespace

void softmax_bf16_row_scalar(const SoftmaxBf16Row& row) {
  row.probabilities ? gradient_row(row) : forward_row(row);
}

void causal_softmax_bf16(const CausalRows& rows, uint16_t* scores, const CpuFeatures& cpu) {
  run(rows, scores, nullptr, cpu);
}

void causal_softmax_bf16_gradient(const CausalRows& rows, const uint16_t* probabilities, uint16_t* gradient,
                                  const CpuFeatures& cpu) {
  run(rows, gradient, probabilities, cpu);
}

}  // namespace quaver::kernels
