// RMS normalisation against double precision, at every instruction-set level.
#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/support.h"

namespace quaver::kernels {
namespace {

struct NormCase {
  int64_t rows, width;
  bool weighted, one_plus, residual;
  float scale;
};

void check_norm(const NormCase& c, const CpuFeatures& cpu, ThreadPool* pool) {
  Random random(1);
  int64_t stride = c.width + 2;
  std::vector<float> x = random.normals(c.rows * stride, c.scale), weight = random.normals(c.width);
  std::vector<float> residual = random.normals(c.rows * stride, c.scale), kept = residual;
  std::vector<float> y(static_cast<size_t>(c.rows * c.width));
  rms_norm({.x = x.data(),
            .x_stride = stride,
            .y = y.data(),
            .y_stride = c.width,
            .weight = c.weighted ? weight.data() : nullptr,
            .rows = c.rows,
            .width = c.width,
            .epsilon = 1e-5f,
            .one_plus_weight = c.one_plus,
            .residual = c.residual ? residual.data() : nullptr,
            .residual_stride = stride,
            .pool = pool},
           cpu);
  for (int64_t r = 0; r < c.rows; ++r) {
    auto input = [&](int64_t i) {
      auto at = static_cast<size_t>(r * stride + i);
      return c.residual ? x[at] + kept[at] : x[at];
    };
    double squares = 0;
    for (int64_t i = 0; i < c.width; ++i) squares += static_cast<double>(input(i)) * input(i);
    double inverse = 1 / std::sqrt(squares / static_cast<double>(c.width) + static_cast<double>(1e-5f));
    for (int64_t i = 0; i < c.width; ++i) {
      double factor =
          c.weighted ? (c.one_plus ? 1.0 : 0.0) + static_cast<double>(weight[static_cast<size_t>(i)]) : 1.0;
      double expected = input(i) * inverse * factor;
      // 1 + weight may cancel: its rounding is relative to 1.
      double magnitude = std::abs(input(i) * inverse) * std::max(std::abs(factor), c.one_plus ? 1.0 : 0.0);
      ASSERT_NEAR(y[static_cast<size_t>(r * c.width + i)], expected, sum_tolerance(magnitude, c.width))
          << to_string(cpu);
      if (c.residual) {
        ASSERT_EQ(residual[static_cast<size_t>(r * stride + i)], input(i));
      }
    }
  }
}

TEST(RmsNorm, MatchesDoublePrecision) {
  ThreadPool pool(2);
  for (const CpuFeatures& cpu : cpu_levels())
    for (int64_t width : {1, 7, 16, 33, 64, 576, 1000})
      for (float scale : {1e-6f, 1.0f, 1e6f})
        for (int flags = 0; flags < 8; ++flags)
          check_norm({5, width, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, scale}, cpu, &pool);
}

TEST(RmsNorm, InPlaceEqualsOutOfPlaceAndRowsAreIndependent) {
  for (const CpuFeatures& cpu : cpu_levels()) {
    std::vector<float> x = Random(2).normals(40 * 576), weight = Random(3).normals(576), y(x.size()),
                       one(576);
    ThreadPool pool(3);
    RmsNormArgs args = {.x = x.data(),
                        .x_stride = 576,
                        .y = y.data(),
                        .y_stride = 576,
                        .weight = weight.data(),
                        .rows = 40,
                        .width = 576,
                        .pool = &pool};
    rms_norm(args, cpu);
    args = {.x = x.data() + 17 * 576,
            .x_stride = 576,
            .y = one.data(),
            .y_stride = 576,
            .weight = weight.data(),
            .rows = 1,
            .width = 576};
    rms_norm(args, cpu);
    EXPECT_EQ(0, std::memcmp(one.data(), y.data() + 17 * 576, 576 * 4));
    rms_norm({.x = x.data(),
              .x_stride = 576,
              .y = x.data(),
              .y_stride = 576,
              .weight = weight.data(),
              .rows = 40,
              .width = 576},
             cpu);
    EXPECT_EQ(x, y);
  }
}

}  // namespace
}  // namespace quaver::kernels
