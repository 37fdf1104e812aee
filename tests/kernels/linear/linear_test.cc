// Every row of the linear table against a double-precision oracle, and the promises of kernel.h.
#include <gtest/gtest.h>

#include <cstring>

#include "base/buffer.h"
#include "base/error.h"
#include "kernels/linear/channel_blocks.h"
#include "kernels/linear/random_weight.h"
#include "kernels/support.h"
#include "numerics/element_value.h"

namespace quaver::kernels {
namespace {

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
  BlockPlan plan = plan_blocks(w.view());
  auto factor = [&](size_t channel) { return w.multiplier.empty() ? 1.0f : w.multiplier[channel]; };
  for (const ChannelBlock& block : plan.blocks) {
    auto channel = [&](int32_t i) {
      return static_cast<size_t>(plan.order.empty() ? i : plan.order[static_cast<size_t>(i)]);
    };
    double max = 0;
    for (int32_t i = block.begin; i < block.begin + block.length; ++i)
      max = std::max<double>(max, std::abs(x[channel(i)] * factor(channel(i))));
    for (int32_t i = block.begin; i < block.begin + block.length; ++i)
      maxima[channel(i)] = max / std::abs(factor(channel(i)));
  }
  return maxima;
}

// y in double, and what a row of the table may miss it by: with the activations as they are, and rounded.
struct Oracle {
  std::vector<double> y, exact, rounded;  // [m, n]
};

Oracle oracle_of(const Weight& w, const Input& in, const std::vector<float>& bias = {}) {
  int64_t n = w.problem.n, k = w.problem.k;
  Oracle expected;
  for (int64_t r = 0; r < in.m; ++r) {
    const float* x = in.x.data() + r * in.stride;
    std::vector<double> maxima(static_cast<size_t>(k));
    if (w.problem.quantized) maxima = block_maxima(w, x);
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(j)], magnitude = std::abs(sum), rounding = 0;
      for (int64_t i = 0; i < k; ++i) {
        auto at = static_cast<size_t>(j * k + i);
        sum += x[i] * w.dense[at];
        magnitude += std::abs(x[i] * w.terms[at]);
        rounding += std::abs(w.dense[at]) * maxima[static_cast<size_t>(i)] / 254 * 1.0001;
      }
      expected.y.push_back(sum);
      expected.exact.push_back(sum_tolerance(magnitude, k));
      expected.rounded.push_back(rounding + sum_tolerance(magnitude + rounding, k));
    }
  }
  return expected;
}

void expect_close(const LinearKernel& kernel, const Weight& w, const Oracle& expected,
                  const std::vector<float>& y) {
  const std::vector<double>& bound = rounds_activations(kernel) ? expected.rounded : expected.exact;
  auto n = static_cast<size_t>(w.problem.n);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_NEAR(y[i], expected.y[i], bound[i])
        << kernel.name << " " << element_info(w.problem.element).name << " scales "
        << scale_codec_info(w.scales.codec).name << " n " << n << " k " << w.problem.k << " row " << i / n
        << " column " << i % n;
}

struct Shape {
  int64_t n, k, m;
};
const Shape kShapes[] = {{1, 1, 1},    {3, 7, 2},      {16, 32, 1},   {33, 64, 5},  {31, 100, 13},
                         {64, 576, 3}, {192, 576, 25}, {40, 1000, 7}, {70, 129, 98}};

// One weight or more of every kind that the rows tell apart.
std::vector<Weight> weights_for(const Shape& s) {
  std::vector<Weight> weights;
  auto add = [&](const Options& o, uint64_t seed) { weights.push_back(quantized_weight(s.n, s.k, o, seed)); };
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    weights.push_back(plain_weight(s.n, s.k, dtype, 1));
  for (int bits = 2; bits <= 8; ++bits)
    for (bool zeros : {false, true}) add({integer_element(bits), 128, zeros}, 2);
  for (int64_t group : {int64_t{1}, int64_t{16}, int64_t{32}, int64_t{64}, int64_t{100}, int64_t{200}, s.k})
    add({Element::kInt4, group, true}, 3);
  for (int bits : {2, 4, 8}) add({integer_element(bits), 32, true, true}, 4);
  add({Element::kInt4, 64, false, true, true}, 5);
  for (const ScaleCodecInfo& codec : kScaleCodecs)
    for (Second second : {Second::kNone, Second::kGlobal, Second::kTwoGroups})
      add({.group = 32, .codec = codec.codec, .second = second}, 22);
  for (Second second : {Second::kDivisor, Second::kRow, Second::kThreeEntries})
    add({.group = 16, .codec = ScaleCodec::kE4M3FN, .second = second}, 23);
  for (int bits : {2, 4, 5})
    for (bool permuted : {false, true})
      add({.element = integer_element(bits),
           .group = 32,
           .permuted = permuted,
           .codec = ScaleCodec::kU6,
           .second = Second::kTwoGroups,
           .mins = true},
          24);
  add({.codec = ScaleCodec::kBF16, .mins = true}, 25);
  for (const ElementInfo& element : kElements) {
    if (element.integer) continue;
    add({.element = element.element}, 29);
    add({.element = element.element,
         .group = 16,
         .permuted = true,
         .codec = ScaleCodec::kE4M3FN,
         .second = Second::kDivisor},
        30);
    add({.element = element.element, .group = 32, .codec = ScaleCodec::kE8M0, .mins = true}, 31);
    add({.element = element.element, .group_rows = 128, .multiplier = true}, 32);
  }
  for (int64_t rows : {int64_t{4}, int64_t{128}, s.n})
    add({.element = Element::kInt8, .zeros = true, .group_rows = rows, .multiplier = true}, 26);
  return weights;
}

TEST(Linear, EveryRowMatchesTheOracle) {
  ThreadPool pool(2);
  for (const Shape& s : kShapes)
    for (const Weight& w : weights_for(s)) {
      Input in = make_input(s.m, s.k, 6);
      std::vector<float> bias = Random(7).normals(s.n);
      Oracle expected = oracle_of(w, in, bias);
      for (const LinearKernel& kernel : linear_kernels()) {
        if (!kernel.supports(w.problem, cpu_features())) continue;
        expect_close(kernel, w, expected, multiply(kernel, w, in, 0, s.m, &pool, bias.data()));
      }
    }
}

// With activations that 8 bits hold exactly, rounding them costs nothing: this sees errors the wide bound
// hides.
TEST(Linear, EightBitActivationsAreExactWhereTheyCanBe) {
  std::vector<Options> all;
  for (int bits : {2, 3, 4, 5, 8})
    for (bool zeros : {false, true}) all.push_back({integer_element(bits), 128, zeros});
  for (int bits : {2, 4, 5})
    all.push_back({.element = integer_element(bits),
                   .group = 32,
                   .codec = ScaleCodec::kU6,
                   .second = Second::kTwoGroups,
                   .mins = true});
  for (const Options& o : all) {
    Weight w = quantized_weight(50, 576, o, 8);
    Input in = make_input(14, 576, 9);
    Random random(10);
    for (int64_t r = 0; r < in.m; ++r)
      for (int64_t i = 0; i < in.k; ++i)
        in.x[static_cast<size_t>(r * in.stride + i)] =
            i % 32 == 0 ? -127.0f : static_cast<float>(random.below(255) - 127);
    for (const LinearKernel& kernel : linear_kernels()) {
      if (!kernel.supports(w.problem, cpu_features()) || !rounds_activations(kernel)) continue;
      std::vector<float> y = multiply(kernel, w, in, 0, in.m, nullptr);
      for (int64_t r = 0; r < in.m; ++r)
        for (int64_t j = 0; j < 50; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < 576; ++i) {
            double x = in.x[static_cast<size_t>(r * in.stride + i)];
            sum += x * w.dense[static_cast<size_t>(j * 576 + i)];
            magnitude += std::abs(x * w.terms[static_cast<size_t>(j * 576 + i)]);
          }
          ASSERT_NEAR(y[static_cast<size_t>(r * 50 + j)], sum, sum_tolerance(magnitude, 2 * 576 / o.group))
              << kernel.name;
        }
    }
  }
}

// Every code of a codec is the scale of a row of its own, whose one weight is that scale times one.
TEST(Linear, ScalesAreDecodedToTheLastBit) {
  for (const ScaleCodecInfo& codec : kScaleCodecs)
    for (Second second : {Second::kNone, Second::kRow, Second::kDivisor}) {
      int64_t n = codec.bytes == 1 ? 256 : 65536;
      Weight w = quantized_weight(n, 1, {.group = 1, .codec = codec.codec, .second = second}, 27);
      for (int64_t r = 0; r < n; ++r) {
        w.codes[static_cast<size_t>(r)] = std::byte{9};
        std::byte* stored = w.scales.codes.data() + r * codec.bytes;
        if (codec.bytes <= 2) std::memcpy(stored, &r, static_cast<size_t>(codec.bytes));
        if (!std::isfinite(w.scales.at(r))) std::memset(stored, 0, static_cast<size_t>(codec.bytes));
      }
      Input in = {1, 1, 1, {1.0f}};
      for (const LinearKernel& kernel : linear_kernels()) {
        if (!kernel.supports(w.problem, cpu_features()) || rounds_activations(kernel)) continue;
        std::vector<float> y = multiply(kernel, w, in, 0, 1, nullptr);
        for (int64_t r = 0; r < n; ++r)
          ASSERT_EQ(y[static_cast<size_t>(r)], w.scales.at(r))
              << kernel.name << " " << codec.name << " " << r;
      }
    }
}

// Every code of a float element has a row of its own, whose only channel it is.
TEST(Linear, FloatCodesAreDecodedToTheLastBit) {
  for (const ElementInfo& element : kElements) {
    if (element.integer) continue;
    int64_t n = 1 << element.bits;
    Weight w =
        quantized_weight(n, 1, {.element = element.element, .group = 1, .codec = ScaleCodec::kE8M0}, 33);
    std::vector<float> values;
    for (int64_t r = 0; r < n; ++r) {
      values.push_back(element_value(element.element, static_cast<uint8_t>(r)));
      w.codes[static_cast<size_t>(r)] = static_cast<std::byte>(std::isfinite(values.back()) ? r : 0);
      if (!std::isfinite(values.back())) values.back() = 0;
      w.scales.codes[static_cast<size_t>(r)] = std::byte{127};  // 1
    }
    Input in = {1, 1, 1, {1.0f}};
    for (const LinearKernel& kernel : linear_kernels()) {
      if (!kernel.supports(w.problem, cpu_features())) continue;
      EXPECT_EQ(multiply(kernel, w, in, 0, 1, nullptr), values) << kernel.name << " " << element.name;
    }
  }
}

// What decoding a token reads: the codes and scales as the checkpoint has them, and a float per row for the
// second level.
TEST(Linear, PanelsAreNoLargerThanTheWeight) {
  struct Case {
    Options options;
    double bits;  // per weight
  };
  for (const Case& c : {
           Case{{.element = Element::kInt2, .group = 32, .codec = ScaleCodec::kF16}, 2.5},
           Case{{.element = Element::kInt4, .group = 32, .codec = ScaleCodec::kF16}, 4.5},
           Case{{.element = Element::kInt8, .group = 64, .codec = ScaleCodec::kE8M0}, 8.125},
           Case{{.element = Element::kInt4, .group = 32, .codec = ScaleCodec::kU6, .mins = true}, 4.5},
           Case{{.element = Element::kE2M1, .group = 32, .codec = ScaleCodec::kE8M0}, 4.25},
           Case{{.element = Element::kE4M3FN, .group = 128, .group_rows = 128}, 8.25},
       }) {
    Weight w = quantized_weight(64, 1024, c.options, 28);
    for (const LinearKernel& kernel : linear_kernels()) {
      if (!kernel.supports(w.problem, cpu_features()) || kernel.name == std::string("reference_scalar"))
        continue;
      EXPECT_EQ(static_cast<double>(kernel.prepack(w.view())->size_bytes()), 64 * 1024 * c.bits / 8)
          << kernel.name;
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

void expect_together_as_apart(const std::vector<Weight>& weights) {
  ThreadPool pool(2);
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

TEST(Linear, PartsTogetherEqualPartsApart) {
  std::vector<Weight> integers, floats;
  for (const Options& o : {Options{}, Options{Element::kInt8, 128, true}, Options{.group = 32},
                           Options{.group = 32, .permuted = true}, Options{.multiplier = true}})
    integers.push_back(quantized_weight(40, 576, o, 12));
  for (const Options& o : {Options{.element = Element::kE4M3FN}, Options{.element = Element::kNF4},
                           Options{.element = Element::kE2M1, .group = 32},
                           Options{.element = Element::kE5M2, .multiplier = true}})
    floats.push_back(quantized_weight(33, 576, o, 13));
  expect_together_as_apart(integers);
  expect_together_as_apart(floats);
}

TEST(Linear, TinyHugeAndZeroActivations) {
  for (float scale : {0.0f, 1e-42f, 1e-35f, 1e-20f, 1e18f, 1e34f}) {
    Weight w = quantized_weight(40, 160, {Element::kInt4, 64, true}, 17),
           fp8 = quantized_weight(40, 160, {Element::kE4M3FN, 64}, 34),
           plain = plain_weight(40, 160, DType::kBF16, 18);
    Input in = make_input(3, 160, 19, scale);
    for (const Weight* weight : {&w, &fp8, &plain}) {
      Oracle expected = oracle_of(*weight, in);
      for (const LinearKernel& kernel : linear_kernels()) {
        if (!kernel.supports(weight->problem, cpu_features())) continue;
        std::vector<float> y = multiply(kernel, *weight, in, 0, 3, nullptr);
        if (rounds_activations(kernel) &&
            scale < 1e-30f) {  // below the smallest block maximum: zero by contract
          for (float v : y) EXPECT_EQ(v, 0.0f) << kernel.name;
          continue;
        }
        expect_close(kernel, *weight, expected, y);
      }
    }
  }
}

TEST(Linear, NonFiniteActivationsAreNotHidden) {
  Weight w = quantized_weight(40, 160, {Element::kInt4, 64}, 20);
  std::vector<float> halves(40 * 3, 0.5f);
  std::memcpy(w.scales.codes.data(), halves.data(), w.scales.codes.size());
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
  LinearProblem fp8 = {.n = 8, .k = 64, .quantized = true, .element = Element::kE4M3FN, .group = 32};
  EXPECT_STREQ(choose_linear_kernel(fp8, {}).name, "reference_scalar");
  EXPECT_STREQ(choose_linear_kernel(fp8, {.avx2 = true}).name, "float_a32_avx2");
  EXPECT_STREQ(choose_linear_kernel(fp8, {.avx2 = true, .avx512 = true}).name, "float_a32_avx512");
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
