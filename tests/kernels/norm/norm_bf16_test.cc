// bf16 RMS normalisation and its gradient against double precision, at every instruction-set level.
#include "kernels/norm/norm_bf16.h"

#include <gtest/gtest.h>

#include "kernels/bf16_support.h"

namespace quaver::kernels {
namespace {

struct Row {
  std::vector<double> normal, g;
  double inverse = 0, mean = 0;  // mean of g n
};

Row exact(const std::vector<uint16_t>& x, const std::vector<uint16_t>& dy, const std::vector<float>& weight,
          size_t from) {
  Row row;
  double squares = 0;
  size_t width = weight.size();
  for (size_t i = 0; i < width; ++i) squares += std::pow(bf16_to_float(x[from + i]), 2);
  row.inverse = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(1e-5f));
  for (size_t i = 0; i < width; ++i) {
    row.normal.push_back(bf16_to_float(x[from + i]) * row.inverse);
    row.g.push_back(static_cast<double>(bf16_to_float(dy[from + i])) * weight[i]);
    row.mean += row.normal[i] * row.g[i] / static_cast<double>(width);
  }
  return row;
}

TEST(RmsNormBf16, MatchesDoublePrecision) {
  ThreadPool pool(2);
  constexpr int64_t kRows = 5;
  for (const CpuFeatures& cpu : cpu_levels())
    for (int64_t width : {1, 7, 16, 33, 64, 576, 1000})
      for (bool round_first : {false, true}) {
        std::vector<float> weight = Random(3).normals(width);
        std::vector<uint16_t> x = bf16_normals(kRows * width, 1), dy = bf16_normals(kRows * width, 2);
        std::vector<uint16_t> y(x.size()), dx(x.size());
        RmsNormBf16Args args = {.x = x.data(),
                                .weight = weight.data(),
                                .rows = kRows,
                                .width = width,
                                .epsilon = 1e-5f,
                                .round_first = round_first,
                                .pool = &pool};
        rms_norm_bf16(args, y.data(), cpu);
        rms_norm_bf16_gradient(args, dy.data(), dx.data(), cpu);
        for (size_t r = 0; r < kRows; ++r) {
          Row row = exact(x, dy, weight, r * weight.size());
          for (size_t i = 0; i < weight.size(); ++i) {
            size_t at = r * weight.size() + i;
            double value = row.normal[i] * weight[i];
            ASSERT_NEAR(bf16_to_float(y[at]), value, (round_first ? 2 : 1) * bf16_tolerance(value));
            double gradient = row.inverse * (row.g[i] - row.normal[i] * row.mean);
            double magnitude = row.inverse * (std::abs(row.g[i]) + std::abs(row.normal[i] * row.mean));
            ASSERT_NEAR(bf16_to_float(dx[at]), gradient,
                        bf16_tolerance(gradient) + sum_tolerance(magnitude, width));
          }
        }
      }
}

}  // namespace
}  // namespace quaver::kernels
