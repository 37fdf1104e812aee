// Gated activations against double precision, at every instruction-set level; measures the error in ulp.
#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/support.h"

namespace quaver::kernels {
namespace {

double logistic_argument_gelu(double x) { return 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

// Error of `got` in units of the last place of `expected`.
double ulps(float got, double expected) {
  auto rounded = static_cast<float>(std::abs(expected));
  double unit = std::nextafter(rounded, INFINITY) - static_cast<double>(rounded);
  return std::abs(got - expected) / unit;
}

std::vector<float> arguments() {
  std::vector<float> x = {0.0f, -0.0f, 1e-30f, -1e-30f, 80.0f, -80.0f, 1e4f};
  for (double v = -30; v < 30; v += 0.00137) x.push_back(static_cast<float>(v));
  return x;
}

void run(void (*op)(const GatedArgs&, const CpuFeatures&), const std::vector<float>& gate,
         const std::vector<float>& up, std::vector<float>& y, const CpuFeatures& cpu, ThreadPool* pool) {
  auto width = static_cast<int64_t>(gate.size());
  op({.gate = gate.data(),
      .gate_stride = 0,
      .up = up.data(),
      .up_stride = 0,
      .y = y.data(),
      .y_stride = width,
      .rows = 1,
      .width = width,
      .pool = pool},
     cpu);
}

TEST(Gated, SiluIsWithinFourUlp) {
  std::vector<float> gate = arguments(), up(gate.size(), 1.0f), y(gate.size());
  for (const CpuFeatures& cpu : cpu_levels()) {
    run(silu_mul, gate, up, y, cpu, nullptr);
    for (size_t i = 0; i < gate.size(); ++i) {
      double x = gate[i];
      EXPECT_LE(ulps(y[i], x / (1 + std::exp(-x))), 4.0) << to_string(cpu) << " at " << x;
    }
  }
}

// The argument u of exp is itself rounded a few times, which costs |u| of those roundings in the result.
TEST(Gated, GeluIsWithinItsBound) {
  std::vector<float> gate = arguments(), up(gate.size(), 1.0f), y(gate.size());
  for (const CpuFeatures& cpu : cpu_levels()) {
    run(gelu_tanh_mul, gate, up, y, cpu, nullptr);
    for (size_t i = 0; i < gate.size(); ++i) {
      double x = gate[i], u = logistic_argument_gelu(x), expected = x / (1 + std::exp(-u));
      if (std::abs(expected) < 1e-37) {
        EXPECT_NEAR(y[i], expected, 1e-37) << x;
        continue;
      }
      EXPECT_LE(ulps(y[i], expected), 4 + 4 * std::max(0.0, -u)) << to_string(cpu) << " at " << x;
    }
  }
}

void run_clamped(const std::vector<float>& gate, const std::vector<float>& up, std::vector<float>& y,
                 const CpuFeatures& cpu) {
  auto width = static_cast<int64_t>(gate.size());
  clamped_silu_mul({.gate = gate.data(),
                    .gate_stride = width,
                    .up = up.data(),
                    .up_stride = width,
                    .y = y.data(),
                    .y_stride = width,
                    .rows = 1,
                    .width = width,
                    .alpha = 1.702f,
                    .limit = 7.0f},
                   cpu);
}

// As for gelu, the rounded argument of exp costs its size in roundings; up + 1 may cancel, and rounds once.
TEST(Gated, ClampedSiluIsWithinItsBound) {
  std::vector<float> gate = arguments(), up = Random(3).normals(static_cast<int64_t>(gate.size())),
                     y(gate.size());
  for (float& u : up) u *= 5;
  for (const CpuFeatures& cpu : cpu_levels()) {
    run_clamped(gate, up, y, cpu);
    for (size_t i = 0; i < gate.size(); ++i) {
      double g = std::min(gate[i], 7.0f), u = std::clamp(up[i], -7.0f, 7.0f);
      double glu = g / (1 + std::exp(-1.702f * g)), expected = glu * (u + 1);
      double slack = (5 + 4 * std::max(0.0, -1.702 * g)) * 0x1p-23 * std::abs(expected) +
                     std::abs(glu) * (1 + std::abs(u)) * 0x1p-24 + 1e-37;
      EXPECT_NEAR(y[i], expected, slack) << to_string(cpu) << " at " << gate[i] << " and " << up[i];
    }
  }
}

TEST(Gated, ClampedSiluKeepsNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> gate = {kNaN, 1.0f, 1.0f}, up = {1.0f, kNaN, 1.0f}, y(3);
  for (const CpuFeatures& cpu : cpu_levels()) {
    run_clamped(gate, up, y, cpu);
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && !std::isnan(y[2])) << to_string(cpu);
  }
}

TEST(Gated, MultipliesRowsWithStridesInPlace) {
  ThreadPool pool(2);
  for (const CpuFeatures& cpu : cpu_levels())
    for (int64_t width : {1, 5, 16, 37}) {
      int64_t rows = 3, stride = 2 * width;  // gate and up side by side, as one linear layer writes them
      std::vector<float> both = Random(4).normals(rows * stride), kept = both;
      silu_mul({.gate = both.data(),
                .gate_stride = stride,
                .up = both.data() + width,
                .up_stride = stride,
                .y = both.data(),
                .y_stride = stride,
                .rows = rows,
                .width = width,
                .pool = &pool},
               cpu);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; ++i) {
          double x = kept[static_cast<size_t>(r * stride + i)],
                 up = kept[static_cast<size_t>(r * stride + width + i)];
          EXPECT_LE(ulps(both[static_cast<size_t>(r * stride + i)], x / (1 + std::exp(-x)) * up), 5.0);
          EXPECT_EQ(both[static_cast<size_t>(r * stride + width + i)],
                    kept[static_cast<size_t>(r * stride + width + i)]);
        }
    }
}

}  // namespace
}  // namespace quaver::kernels
