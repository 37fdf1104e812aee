// bf16 gated activations and their gradients against double precision, at every instruction-set level.
#include "kernels/activation/activation_bf16.h"

#include <gtest/gtest.h>

#include "kernels/bf16_support.h"

namespace quaver::kernels {
namespace {

double value_of(GateFunction function, double x) {
  if (function == GateFunction::kSilu) return x / (1 + std::exp(-x));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double slope_of(GateFunction function, double x) {
  constexpr double kStep = 1e-5;
  return (value_of(function, x + kStep) - value_of(function, x - kStep)) / (2 * kStep);
}

TEST(GatedBf16, MatchesDoublePrecision) {
  ThreadPool pool(2);
  for (const CpuFeatures& cpu : cpu_levels())
    for (GateFunction function : {GateFunction::kSilu, GateFunction::kGeluTanh})
      for (int64_t count : {1, 15, 16, 33, 20000}) {
        std::vector<uint16_t> gate = bf16_normals(count, 1, 3.0f), up = bf16_normals(count, 2),
                              dy = bf16_normals(count, 3), y(gate.size()), dgate(gate.size()),
                              dup(gate.size());
        GatedBf16Args args = {function, gate.data(), up.data(), count, &pool};
        gated_bf16(args, y.data(), cpu);
        gated_bf16_gradient(args, dy.data(), dgate.data(), dup.data(), cpu);
        for (size_t i = 0; i < gate.size(); ++i) {
          double x = bf16_to_float(gate[i]), u = bf16_to_float(up[i]), d = bf16_to_float(dy[i]);
          double f = value_of(function, x), slope = slope_of(function, x);
          // f falls to nothing for large negative x, where fp32 keeps the error of the logistic function.
          double slack = std::abs(x) * 0x1p-20;
          ASSERT_NEAR(bf16_to_float(y[i]), f * u, 2 * bf16_tolerance(f * u) + slack * std::abs(u));
          ASSERT_NEAR(bf16_to_float(dup[i]), d * f, bf16_tolerance(d * f) + slack * std::abs(d));
          // Two terms of opposite sign meet in the slope, each at most 1 + |x|.
          double magnitude = std::abs(d * u) * (1 + std::abs(x)) * 0x1p-18;
          ASSERT_NEAR(bf16_to_float(dgate[i]), d * u * slope, bf16_tolerance(d * u * slope) + magnitude);
        }
      }
}

TEST(GatedBf16, FarGatesStayFinite) {
  for (const CpuFeatures& cpu : cpu_levels())
    for (GateFunction function : {GateFunction::kSilu, GateFunction::kGeluTanh})
      for (float x : {-3e38f, -200.0f, 200.0f, 1e10f}) {
        std::vector<uint16_t> gate(17, float_to_bf16(x)), one(17, float_to_bf16(1.0f)), dgate(17), dup(17);
        GatedBf16Args args = {function, gate.data(), one.data(), 17, nullptr};
        gated_bf16_gradient(args, one.data(), dgate.data(), dup.data(), cpu);
        float gate_read = bf16_to_float(gate[0]);
        for (size_t i : {size_t{0}, size_t{16}}) {
          EXPECT_EQ(bf16_to_float(dup[i]), x > 0 ? gate_read : 0.0f) << x << " " << to_string(cpu);
          EXPECT_EQ(bf16_to_float(dgate[i]), x > 0 ? 1.0f : 0.0f) << x << " " << to_string(cpu);
        }
      }
}

}  // namespace
}  // namespace quaver::kernels
