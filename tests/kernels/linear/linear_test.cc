// Every row of the linear table against a double-precision oracle, and the promises of kernel.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/buffer.h"
#include "base/error.h"
#include "kernels/linear/codes.h"
#include "kernels/linear/integer_blocks.h"
#include "kernels/linear/kernel.h"
#include "kernels/support.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

// A weight with everything that a WeightView borrows, and its exact values.
struct Weight {
  LinearProblem problem;
  std::vector<std::byte> codes;
  std::vector<float> scales;
  std::vector<uint8_t> zeros;
  std::vector<int32_t> permutation;
  std::vector<double> dense;

  WeightView view() const {
    return {problem, codes, scales.empty() ? nullptr : scales.data(), zeros.empty() ? nullptr : zeros.data(),
            permutation.empty() ? nullptr : permutation.data()};
  }
};

Weight plain_weight(int64_t n, int64_t k, DType dtype, uint64_t seed) {
  Random random(seed);
  Weight w;
  w.problem = {.n = n, .k = k, .plain = dtype};
  w.codes.resize(static_cast<size_t>(n * k * dtype_info(dtype).block_bytes));
  for (int64_t i = 0; i < n * k; ++i) {
    float value = random.normal();
    if (dtype == DType::kF32) {
      std::memcpy(w.codes.data() + i * 4, &value, 4);
    } else {
      uint16_t bits = dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
      std::memcpy(w.codes.data() + i * 2, &bits, 2);
      value = dtype == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
    }
    w.dense.push_back(value);
  }
  return w;
}

void write_code(std::vector<std::byte>& codes, int64_t row_begin, int64_t index, int bits, unsigned code) {
  for (int b = 0; b < bits; ++b) {
    int64_t bit = index * bits + b;
    if ((code >> b) & 1u) codes[static_cast<size_t>(row_begin + bit / 8)] |= std::byte(1u << (bit % 8));
  }
}

struct Options {
  int bits = 4;
  int64_t group = 128;
  bool zeros = false, permuted = false, exact = false;
};

Weight quantized_weight(int64_t n, int64_t k, const Options& o, uint64_t seed) {
  Random random(seed);
  int64_t groups = (k + o.group - 1) / o.group, row_bytes = code_row_bytes(k, o.bits);
  Weight w;
  w.problem = {.n = n,
               .k = k,
               .quantized = true,
               .element = integer_element(o.bits),
               .group = o.group,
               .has_zeros = o.zeros,
               .has_permutation = o.permuted,
               .exact_activations = o.exact};
  w.codes.resize(static_cast<size_t>(n * row_bytes));
  for (int64_t g = 0; g < n * groups; ++g) {
    w.scales.push_back(g % 7 == 3 ? 0.0f
                                  : random.normal() * 0.01f);  // negative ones too, and groups of nothing
    if (o.zeros) w.zeros.push_back(static_cast<uint8_t>(random.below(1 << o.bits)));
  }
  if (o.permuted) {
    w.permutation.resize(static_cast<size_t>(k));
    std::iota(w.permutation.begin(), w.permutation.end(), 0);
    std::shuffle(w.permutation.begin(), w.permutation.end(), random.engine());
  }
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < k; ++i) {
      auto code = static_cast<unsigned>(random.below(1 << o.bits));
      write_code(w.codes, r * row_bytes, i, o.bits, code);
      int64_t channel = o.permuted ? w.permutation[static_cast<size_t>(i)] : i;
      auto g = static_cast<size_t>(r * groups + channel / o.group);
      int zero = o.zeros ? w.zeros[g] : 1 << (o.bits - 1);
      w.dense.push_back(static_cast<double>(w.scales[g]) * (static_cast<int>(code) - zero));
    }
  return w;
}

struct Input {
  int64_t m, k, stride;
  std::vector<float> x;
};

Input make_input(int64_t m, int64_t k, uint64_t seed, float scale = 1.0f) {
  int64_t stride = k + 3;  // rows need not be adjacent
  return {m, k, stride, Random(seed).normals(m * stride, scale)};
}

std::vector<float> multiply(const LinearKernel& kernel, const Weight& w, const Input& in, int64_t first_row,
                            int64_t m, ThreadPool* pool, const float* bias = nullptr) {
  auto packed = kernel.prepack(w.view());
  std::vector<std::byte> memory(kernel.workspace_bytes(w.problem, m) + 64);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  int64_t n = w.problem.n, stride = n + 1;
  std::vector<float> y(static_cast<size_t>(m * stride), 777.0f);
  kernel.run(w.problem, *packed,
             {.x = in.x.data() + first_row * in.stride,
              .x_stride = in.stride,
              .y = y.data(),
              .y_stride = stride,
              .m = m,
              .bias = bias,
              .workspace = memory.data() + (64 - address % 64),
              .pool = pool});
  std::vector<float> dense;
  for (int64_t r = 0; r < m; ++r) {
    EXPECT_EQ(y[static_cast<size_t>(r * stride + n)], 777.0f) << "wrote past a row";
    dense.insert(dense.end(), y.begin() + r * stride, y.begin() + r * stride + n);
  }
  return dense;
}

bool rounds_activations(const LinearKernel& kernel) {
  return std::string(kernel.name).find("_a8_") != std::string::npos;
}

// Largest |x| of each channel's block of 128 or fewer, as kernel.h promises for 8-bit activations.
std::vector<double> block_maxima(const Weight& w, const float* x) {
  std::vector<double> maxima(static_cast<size_t>(w.problem.k));
  BlockPlan plan = plan_blocks(w.problem, w.permutation.empty() ? nullptr : w.permutation.data());
  for (const ChannelBlock& block : plan.blocks) {
    auto channel = [&](int32_t i) {
      return static_cast<size_t>(plan.order.empty() ? i : plan.order[static_cast<size_t>(i)]);
    };
    double max = 0;
    for (int32_t i = block.begin; i < block.begin + block.length; ++i)
      max = std::max<double>(max, std::abs(x[channel(i)]));
    for (int32_t i = block.begin; i < block.begin + block.length; ++i) maxima[channel(i)] = max;
  }
  return maxima;
}

void expect_close(const LinearKernel& kernel, const Weight& w, const Input& in, const std::vector<float>& y,
                  const std::vector<float>& bias = {}) {
  int64_t n = w.problem.n, k = w.problem.k;
  for (int64_t r = 0; r < in.m; ++r) {
    const float* x = in.x.data() + r * in.stride;
    std::vector<double> maxima;
    if (rounds_activations(kernel)) maxima = block_maxima(w, x);
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(j)], magnitude = std::abs(sum), rounding = 0;
      for (int64_t i = 0; i < k; ++i) {
        double weight = w.dense[static_cast<size_t>(j * k + i)], product = x[i] * weight;
        sum += product;
        magnitude += std::abs(product);
        if (!maxima.empty()) rounding += std::abs(weight) * maxima[static_cast<size_t>(i)] / 254 * 1.0001;
      }
      ASSERT_NEAR(y[static_cast<size_t>(r * n + j)], sum, rounding + sum_tolerance(magnitude + rounding, k))
          << kernel.name << " n " << n << " k " << k << " row " << r << " column " << j;
    }
  }
}

struct Shape {
  int64_t n, k, m;
};
const Shape kShapes[] = {{1, 1, 1},    {3, 7, 2},      {16, 32, 1},   {33, 64, 5},  {31, 100, 13},
                         {64, 576, 3}, {192, 576, 25}, {40, 1000, 7}, {70, 129, 98}};

std::vector<Weight> weights_for(const Shape& s) {
  std::vector<Weight> weights;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    weights.push_back(plain_weight(s.n, s.k, dtype, 1));
  for (int bits = 2; bits <= 8; ++bits)
    for (bool zeros : {false, true}) weights.push_back(quantized_weight(s.n, s.k, {bits, 128, zeros}, 2));
  for (int64_t group : {int64_t{1}, int64_t{16}, int64_t{32}, int64_t{64}, int64_t{100}, int64_t{200}, s.k})
    weights.push_back(quantized_weight(s.n, s.k, {4, group, true}, 3));
  for (int bits : {4, 8}) weights.push_back(quantized_weight(s.n, s.k, {bits, 32, true, true}, 4));
  weights.push_back(quantized_weight(s.n, s.k, {4, 64, false, true, true}, 5));
  return weights;
}

TEST(Linear, EveryRowMatchesTheOracle) {
  ThreadPool pool(2);
  for (const Shape& s : kShapes)
    for (const Weight& w : weights_for(s)) {
      Input in = make_input(s.m, s.k, 6);
      std::vector<float> bias = Random(7).normals(s.n);
      for (const LinearKernel& kernel : linear_kernels()) {
        if (!kernel.supports(w.problem, cpu_features())) continue;
        expect_close(kernel, w, in, multiply(kernel, w, in, 0, s.m, &pool, bias.data()), bias);
      }
    }
}

// With activations that 8 bits hold exactly, rounding them costs nothing: this sees errors the wide bound
// hides.
TEST(Linear, EightBitActivationsAreExactWhereTheyCanBe) {
  for (int bits : {2, 3, 4, 5, 8})
    for (bool zeros : {false, true}) {
      Weight w = quantized_weight(50, 576, {bits, 128, zeros}, 8);
      Input in = make_input(14, 576, 9);
      Random random(10);
      for (int64_t r = 0; r < in.m; ++r)
        for (int64_t i = 0; i < in.k; ++i)
          in.x[static_cast<size_t>(r * in.stride + i)] =
              i % 64 == 0 ? -127.0f : static_cast<float>(random.below(255) - 127);
      for (const LinearKernel& kernel : linear_kernels()) {
        if (!kernel.supports(w.problem, cpu_features()) || !rounds_activations(kernel)) continue;
        std::vector<float> y = multiply(kernel, w, in, 0, in.m, nullptr);
        for (int64_t r = 0; r < in.m; ++r)
          for (int64_t j = 0; j < 50; ++j) {
            double sum = 0, magnitude = 0;
            for (int64_t i = 0; i < 576; ++i) {
              double product =
                  in.x[static_cast<size_t>(r * in.stride + i)] * w.dense[static_cast<size_t>(j * 576 + i)];
              sum += product;
              magnitude += std::abs(product);
            }
            ASSERT_NEAR(y[static_cast<size_t>(r * 50 + j)], sum, sum_tolerance(magnitude, 5)) << kernel.name;
          }
      }
    }
}

TEST(Linear, ARowHasTheSameBitsInEveryBatchAndOnEveryPool) {
  ThreadPool one(1), three(3);
  for (const Weight& w : weights_for({70, 576, 30})) {
    Input in = make_input(30, 576, 11);
    for (const LinearKernel& kernel : linear_kernels()) {
      if (!kernel.supports(w.problem, cpu_features())) continue;
      std::vector<float> all = multiply(kernel, w, in, 0, 30, &three);
      for (auto [first, m] : {std::pair<int64_t, int64_t>{0, 1}, {17, 1}, {3, 2}, {5, 13}, {29, 1}}) {
        std::vector<float> some = multiply(kernel, w, in, first, m, first % 2 ? nullptr : &one);
        ASSERT_EQ(0, std::memcmp(some.data(), all.data() + first * 70, some.size() * 4)) << kernel.name;
      }
    }
  }
}

TEST(Linear, PartsTogetherEqualPartsApart) {
  ThreadPool pool(2);
  std::vector<Weight> weights = {
      quantized_weight(96, 576, {4, 128}, 12), quantized_weight(33, 576, {8, 128, true}, 13),
      quantized_weight(40, 576, {4, 32}, 14), quantized_weight(40, 576, {4, 32, false, true}, 15)};
  Input in = make_input(5, 576, 16);
  for (const LinearKernel& kernel : linear_kernels()) {
    if (!kernel.supports(weights[0].problem, cpu_features())) continue;
    std::vector<std::unique_ptr<Prepacked>> packed;
    std::vector<std::vector<float>> y;
    std::vector<LinearPart> parts;
    size_t workspace = 0;
    for (const Weight& w : weights) {
      packed.push_back(kernel.prepack(w.view()));
      y.emplace_back(static_cast<size_t>(5 * w.problem.n));
      parts.push_back({&w.problem, packed.back().get(), y.back().data(), w.problem.n, nullptr});
      workspace = std::max(workspace, kernel.workspace_bytes(w.problem, 5));
    }
    std::byte* memory = nullptr;
    Buffer buffer = Buffer::allocate(workspace, memory);
    kernel.run_parts(parts, {in.x.data(), in.stride, 5, memory, &pool});
    for (size_t i = 0; i < weights.size(); ++i)
      EXPECT_EQ(y[i], multiply(kernel, weights[i], in, 0, 5, nullptr)) << kernel.name << " part " << i;
  }
}

TEST(Linear, TinyHugeAndZeroActivations) {
  for (float scale : {0.0f, 1e-42f, 1e-35f, 1e-20f, 1e18f, 1e34f}) {
    Weight w = quantized_weight(40, 160, {4, 64, true}, 17), plain = plain_weight(40, 160, DType::kBF16, 18);
    Input in = make_input(3, 160, 19, scale);
    for (const Weight* weight : {&w, &plain})
      for (const LinearKernel& kernel : linear_kernels()) {
        if (!kernel.supports(weight->problem, cpu_features())) continue;
        std::vector<float> y = multiply(kernel, *weight, in, 0, 3, nullptr);
        if (rounds_activations(kernel) &&
            scale < 1e-30f) {  // below the smallest block maximum: zero by contract
          for (float v : y) EXPECT_EQ(v, 0.0f) << kernel.name;
          continue;
        }
        expect_close(kernel, *weight, in, y);
      }
  }
}

TEST(Linear, NonFiniteActivationsAreNotHidden) {
  Weight w = quantized_weight(40, 160, {4, 64}, 20);
  for (float& s : w.scales) s = 0.5f;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Input in = make_input(2, 160, 21);
    in.x[100] = bad;
    for (const LinearKernel& kernel : linear_kernels()) {
      if (!kernel.supports(w.problem, cpu_features())) continue;
      std::vector<float> y = multiply(kernel, w, in, 0, 2, nullptr);
      for (int64_t j = 0; j < 40; ++j) {
        bool multiplied_by_zero = w.dense[static_cast<size_t>(j * 160 + 100)] == 0;
        EXPECT_TRUE(multiplied_by_zero || !std::isfinite(y[static_cast<size_t>(j)])) << kernel.name;
        EXPECT_TRUE(std::isfinite(y[static_cast<size_t>(40 + j)])) << kernel.name;
      }
    }
  }
}

TEST(Linear, TheChosenRowFollowsTheLevelAndTheProblem) {
  LinearProblem w4 = {.n = 8, .k = 64, .quantized = true, .group = 32},
                bf16 = {.n = 8, .k = 64, .plain = DType::kBF16};
  EXPECT_STREQ(choose_linear_kernel(w4, {}).name, "reference_scalar");
  EXPECT_STREQ(choose_linear_kernel(w4, {.avx2 = true}).name, "int_a8_avx2");
  EXPECT_STREQ(choose_linear_kernel(w4, {.avx2 = true, .avx512 = true}).name, "int_a8_avx512");
  EXPECT_STREQ(choose_linear_kernel(w4, {.avx2 = true, .avx512 = true, .avx512_vnni = true}).name,
               "int_a8_vnni");
  EXPECT_STREQ(choose_linear_kernel(bf16, {.avx2 = true}).name, "plain_avx2");
  w4.exact_activations = true;
  EXPECT_STREQ(choose_linear_kernel(w4, {.avx2 = true, .avx512 = true, .avx512_vnni = true}).name,
               "int_a32_avx512");
}

TEST(Linear, TheEnvironmentForcesARow) {
  LinearProblem w4 = {.n = 8, .k = 64, .quantized = true, .group = 32};
  setenv("QUAVER_KERNEL", "plain_avx2,reference_scalar", 1);
  EXPECT_STREQ(choose_linear_kernel(w4).name, "reference_scalar");
  setenv("QUAVER_KERNEL", "no_such_kernel", 1);
  EXPECT_THROW(choose_linear_kernel(w4), Error);
  unsetenv("QUAVER_KERNEL");
}

}  // namespace
}  // namespace quaver::kernels
