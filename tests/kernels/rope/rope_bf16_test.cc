// bf16 rotary embedding against double precision, and turning back, at every instruction-set level.
#include "kernels/rope/rope_bf16.h"

#include <gtest/gtest.h>

#include "kernels/bf16_support.h"

namespace quaver::kernels {
namespace {

TEST(RopeBf16, RotatesPairsAndCopiesTheRest) {
  ThreadPool pool(2);
  constexpr int64_t kTokens = 9, kHeads = 3;
  for (const CpuFeatures& cpu : cpu_levels())
    for (bool backwards : {false, true})
      for (auto [head_dim, rotary] : {std::pair<int64_t, int64_t>{64, 64}, {64, 32}, {6, 4}, {80, 80}}) {
        int64_t half = rotary / 2, stride = kHeads * head_dim + 5;
        std::vector<float> angle = Random(7).normals(kTokens * half), cos, sin;
        for (float a : angle) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
        std::vector<uint16_t> x = bf16_normals(kTokens * stride, 5);
        std::vector<uint16_t> y(static_cast<size_t>(kTokens * kHeads * head_dim));
        apply_rope_bf16({.x = x.data(),
                         .x_stride = stride,
                         .y = y.data(),
                         .tokens = kTokens,
                         .heads = kHeads,
                         .head_dim = head_dim,
                         .rotary_dim = rotary,
                         .cos = cos.data(),
                         .sin = sin.data(),
                         .backwards = backwards,
                         .pool = &pool},
                        cpu);
        for (int64_t t = 0; t < kTokens; ++t)
          for (int64_t i = 0; i < kHeads * head_dim; ++i) {
            auto from = static_cast<size_t>(t * stride + i),
                 to = static_cast<size_t>(t * kHeads * head_dim + i);
            int64_t channel = i % head_dim;
            if (channel >= rotary) {
              ASSERT_EQ(y[to], x[from]);
              continue;
            }
            bool low = channel < half;
            auto turn = static_cast<size_t>(t * half + channel % half);
            auto distance = static_cast<size_t>(half);
            double a = bf16_to_float(x[from]), b = bf16_to_float(x[low ? from + distance : from - distance]);
            double expected = a * cos[turn] + (low == backwards ? b : -b) * sin[turn];
            ASSERT_NEAR(bf16_to_float(y[to]), expected,
                        bf16_tolerance(expected) + sum_tolerance(std::abs(a) + std::abs(b), 2));
          }
      }
}

}  // namespace
}  // namespace quaver::kernels
