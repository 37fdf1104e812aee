// Rotary embedding against double precision, at every instruction-set level.
#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include "kernels/support.h"

namespace quaver::kernels {
namespace {

TEST(Rope, RotatesPairsAndLeavesTheRest) {
  ThreadPool pool(2);
  const int64_t heads = 3, tokens = 9;
  for (const CpuFeatures& cpu : cpu_levels())
    for (auto [head_dim, rotary] :
         {std::pair<int64_t, int64_t>{64, 64}, {64, 32}, {6, 4}, {80, 80}, {20, 20}}) {
      int64_t half = rotary / 2, stride = heads * head_dim + 5;
      std::vector<float> cos, sin;
      for (int64_t p = 0; p < 100; ++p)
        for (int64_t i = 0; i < half; ++i) {
          double angle = static_cast<double>(p) *
                         std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(rotary));
          cos.push_back(static_cast<float>(std::cos(angle)));
          sin.push_back(static_cast<float>(std::sin(angle)));
        }
      std::vector<int64_t> positions = {0, 1, 5, 99, 7, 7, 50, 3, 2};
      std::vector<float> x = Random(5).normals(tokens * stride), kept = x;
      apply_rope({.x = x.data(),
                  .token_stride = stride,
                  .tokens = tokens,
                  .heads = heads,
                  .head_dim = head_dim,
                  .rotary_dim = rotary,
                  .cos = cos.data(),
                  .sin = sin.data(),
                  .positions = positions.data(),
                  .pool = &pool},
                 cpu);
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t i = 0; i < stride; ++i) {
          auto at = static_cast<size_t>(t * stride + i);
          int64_t channel = i % head_dim;
          if (i >= heads * head_dim || channel >= rotary) {
            ASSERT_EQ(x[at], kept[at]);
            continue;
          }
          bool low = channel < half;
          auto angle = static_cast<size_t>(positions[static_cast<size_t>(t)] * half + channel % half);
          double a = kept[at],
                 b = kept[low ? at + static_cast<size_t>(half) : at - static_cast<size_t>(half)];
          double expected = a * cos[angle] + (low ? -b : b) * sin[angle];
          ASSERT_NEAR(x[at], expected, sum_tolerance(std::abs(a) + std::abs(b), 2)) << to_string(cpu);
        }
    }
}

}  // namespace
}  // namespace quaver::kernels
