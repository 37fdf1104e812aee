// Causal softmax of bf16 scores and its gradient against double precision, at every instruction-set level.
#include "kernels/attention/softmax_bf16.h"

#include <gtest/gtest.h>

#include "kernels/bf16_support.h"

namespace quaver::kernels {
namespace {

struct SoftmaxCase {
  int64_t keys, first_query, rows_per_query, window;
};

bool sees(const SoftmaxCase& c, int64_t row, int64_t key) {
  int64_t position = c.first_query + row / c.rows_per_query;
  return key <= position && (c.window == 0 || key > position - c.window);
}

std::vector<double> exact_softmax(const SoftmaxCase& c, const std::vector<uint16_t>& scores, int64_t row,
                                  float scale) {
  std::vector<double> p(static_cast<size_t>(c.keys));
  double total = 0;
  for (int64_t k = 0; k < c.keys; ++k) {
    double score = static_cast<double>(scale) * bf16_to_float(scores[static_cast<size_t>(row * c.keys + k)]);
    total += p[static_cast<size_t>(k)] = sees(c, row, k) ? std::exp(score) : 0;
  }
  for (double& value : p) value /= total;
  return p;
}

void check_softmax(const SoftmaxCase& c, const CpuFeatures& cpu, ThreadPool* pool) {
  constexpr float kScale = 0.3f;
  int64_t rows = (c.keys - c.first_query) * c.rows_per_query;
  std::vector<uint16_t> scores = bf16_normals(rows * c.keys, 1, 10.0f), p = scores;
  std::vector<uint16_t> gradient = bf16_normals(rows * c.keys, 2), ds = gradient;
  CausalRows causal = {rows, c.keys, c.first_query, c.rows_per_query, c.window, kScale, pool};
  causal_softmax_bf16(causal, p.data(), cpu);
  causal_softmax_bf16_gradient(causal, p.data(), ds.data(), cpu);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> expected = exact_softmax(c, scores, r, kScale);
    double along = 0;
    for (int64_t k = 0; k < c.keys; ++k) {
      auto at = static_cast<size_t>(r * c.keys + k);
      along += static_cast<double>(bf16_to_float(p[at])) * bf16_to_float(gradient[at]);
    }
    for (int64_t k = 0; k < c.keys; ++k) {
      auto at = static_cast<size_t>(r * c.keys + k);
      double want = expected[static_cast<size_t>(k)];
      // exp of an fp32 argument as large as the scores' spread, some 30: that many units more.
      ASSERT_NEAR(bf16_to_float(p[at]), want, bf16_tolerance(want) + want * 0x1p-17) << to_string(cpu);
      double slope = kScale * bf16_to_float(p[at]) * (bf16_to_float(gradient[at]) - along);
      ASSERT_NEAR(bf16_to_float(ds[at]), slope, bf16_tolerance(slope) + sum_tolerance(5.0, c.keys));
      if (!sees(c, r, k)) {
        ASSERT_EQ(p[at], 0);
        ASSERT_EQ(ds[at], 0);
      }
    }
  }
}

TEST(CausalSoftmaxBf16, MatchesDoublePrecision) {
  ThreadPool pool(2);
  for (const CpuFeatures& cpu : cpu_levels())
    for (const SoftmaxCase& c : {SoftmaxCase{1, 0, 1, 0},
                                 {7, 0, 3, 0},
                                 {40, 24, 2, 0},
                                 {130, 100, 1, 0},
                                 {40, 0, 2, 5},
                                 {50, 33, 3, 17},
                                 {33, 0, 1, 1}})
      check_softmax(c, cpu, &pool);
}

}  // namespace
}  // namespace quaver::kernels
